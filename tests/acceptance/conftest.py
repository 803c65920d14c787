"""One workspace per test, and nothing of it running afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Three nodes of `hello` 1.0.0, declared and not yet there."""
    made = Workspace(tmp_path / "w")
    made.fleet()
    try:
        yield made
    finally:
        made.close()

"""A repository of two revisions: one node of hello 1.0.0, and the change to 1.1.0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.pipelines.forge import Forge, forge
from tests.acceptance.pipelines.repository import Repository


@dataclass
class Change:
    """A pull request: from the commit `base` to `head`."""

    repository: Repository
    base: str
    head: str


@pytest.fixture
def change(tmp_path: Path) -> Iterator[Change]:
    root = tmp_path / "upstream"
    workspace = Workspace(root / "fleet", count=2)
    repository = Repository.of(root, workspace)
    workspace.fleet(reserve=0)
    base = repository.commit("Two nodes of 1.0.0")
    workspace.fleet("1.1.0", reserve=0)
    yield Change(repository, base, repository.commit("1.1.0"))
    workspace.close()


@pytest.fixture
def comments() -> Iterator[Forge]:
    with forge() as made:
        yield made

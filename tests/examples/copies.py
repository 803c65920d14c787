"""Examples copied below a top of their own, where the environment is that makes them run, on ports of their own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.house.sources import ROOT

MADE = (".fleetctl", ".hosts", ".images", "__pycache__")
"""What an example makes; a copy begins without it."""


def copy_example(name: str, top: Path, ports: Mapping[str, str] | None = None) -> Path:
    """Copies `examples/NAME` below `top`, with other text for what its `fleet.yaml` says of ports."""
    folder = top / "examples" / name
    shutil.copytree(ROOT / "examples" / name, folder, ignore=shutil.ignore_patterns(*MADE))
    path = folder / "fleet.yaml"
    text = path.read_text(encoding="utf-8")
    for old, new in (ports or {}).items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    if not (top / ".venv").exists():
        (top / ".venv").symlink_to(sys.prefix)
    return folder

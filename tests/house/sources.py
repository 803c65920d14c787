"""Where the project's own files are: the package sources and everything that git tracks."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("manifests", "planner", "executors", "fleetctl")


def package_modules() -> list[Path]:
    """Every Python file of the four packages, sorted."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def tracked_files() -> list[Path]:
    """Every file that git tracks and that is still there, sorted."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    return sorted(ROOT / name for name in names if name and (ROOT / name).is_file())

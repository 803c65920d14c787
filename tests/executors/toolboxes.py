"""The tools that a host may have: this system's, busybox's, or the system's without flock and setsid."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# What the scripts use; a host that has these and a POSIX sh needs nothing installed.
TOOLS = (
    "sh cat chmod chown cp cut date dd dirname env grep head id kill ln ls mkdir mkfifo mktemp mv od printf "
    "readlink rm rmdir sed sha256sum sleep stat su sync tail test timeout touch tr true uname wc xargs"
).split()
# Used when they are there.
EXTRA = ("flock", "setsid", "find")
NAMES = ("system", "busybox", "bare")


def _applets(busybox: str) -> set[str]:
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def put_on_path(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes PATH one folder with the toolbox `name`; skips the test where this machine lacks it."""
    folder.mkdir()
    busybox = shutil.which("busybox")
    if name == "busybox" and busybox is None:
        pytest.skip("busybox is not installed (Debian: busybox-static)")
    applets = _applets(busybox) if name == "busybox" and busybox else set()
    for tool in (*TOOLS, *(EXTRA if name != "bare" else ())):
        real = shutil.which(tool) if name != "busybox" else busybox if tool in applets else None
        if real is not None:
            (folder / tool).symlink_to(real)
    monkeypatch.setenv("PATH", str(folder))
    assert os.environ["PATH"] == str(folder)

"""Private directories of the laboratory's systems; those of test processes that were killed are removed later.

A directory's name holds the pid of the test process, so the next run recognises what a dead one left.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from tests.lab.process import alive, run

NAME = re.compile(r"flab-[a-z]+-(?P<pid>\d+)-\w+\Z")
PID_FILES = ("pid",)
"""Files in such a directory that name a process which may still be at its end (an engine stopping containers)."""


def make_work_directory(kind: str, *, mode: int = 0o700) -> Path:
    """Make a private directory with a short path, because a unix socket's has a limit of 107 bytes."""
    remove_stale()
    directory = Path(tempfile.mkdtemp(prefix=f"flab-{kind}-{os.getpid()}-"))
    directory.chmod(mode)
    return directory


def remove_work_directory(directory: Path) -> None:
    """Unmount what is left mounted below a directory, deepest first, and remove it."""
    for point in _mounted_below(directory):
        run(["umount", "--lazy", point], check=False)
    shutil.rmtree(directory, ignore_errors=True)


def remove_stale() -> None:
    """Remove the directories of test processes that are dead and whose systems have ended."""
    for directory in Path(tempfile.gettempdir()).glob("flab-*"):
        match = NAME.match(directory.name)
        if match and not alive(int(match["pid"])) and not _ending(directory):
            remove_work_directory(directory)


def _ending(directory: Path) -> bool:
    for name in PID_FILES:
        try:
            if alive(int((directory / name).read_text())):
                return True
        except (OSError, ValueError):
            continue
    return False


def _mounted_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = (line.split()[1] for line in lines)
    return sorted((point for point in points if point.startswith(f"{directory}/")), reverse=True)

"""Running fleetctl with fewer rights than the tests have, and places that are full or read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Root passes every permission bit; without its capabilities it is as bound by them as anybody.
WITHOUT_CAPABILITIES = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")


def unprivileged() -> tuple[str, ...]:
    """What stands before a command so that permission bits bind it; empty where they do anyway."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not there to give up root's rights")
    return WITHOUT_CAPABILITIES


@contextmanager
def mounted_tmpfs(folder: Path, size: str, *options: str) -> Iterator[None]:
    """A small file system of its own on `folder`; skips where nobody may mount."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    chosen = ",".join([f"size={size}", "mode=0700", *options])
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", chosen, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"nobody may mount a small file system here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder, mounted read-only over itself; skips where nobody may mount."""
    bound = subprocess.run(
        ["mount", "--bind", str(folder), str(folder)], capture_output=True, text=True, check=False
    )
    if bound.returncode != 0:
        pytest.skip(f"nobody may mount here: {bound.stderr.strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

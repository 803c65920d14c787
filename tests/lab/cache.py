"""Where the laboratory keeps what is slow to build (never inside the repository), and one builder at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.lab.process import LabError

CACHE_ENV = "FLEETCTL_LAB_CACHE"
LOCK_POLL_S = 0.1


def cache_dir() -> Path:
    """The cache directory, made if absent: `$FLEETCTL_LAB_CACHE`, else `~/.cache/fleetctl-lab`."""
    chosen = os.environ.get(CACHE_ENV)
    directory = Path(chosen) if chosen else Path.home() / ".cache" / "fleetctl-lab"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def locked(name: str, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock `name` of the cache; `LabError` when another holds it past the deadline. The kernel frees it."""
    path = cache_dir() / f"{name}.lock"
    began = time.monotonic()
    with path.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - began > timeout_s:
                    raise LabError(f"another run has held {path} for {timeout_s:g} s") from None
                time.sleep(LOCK_POLL_S)
        yield

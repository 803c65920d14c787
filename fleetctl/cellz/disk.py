"""Blobs on a local or shared disk: atomic by link and rename, compare-and-swap under a lock.

`create` is one link(2), which fails if the name is there. `replace` reads, compares and renames under
flock(2): a holder that dies lets go, and one that is stopped there makes the others wait, a bounded time,
and then answer "trouble" rather than guess.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cellz.blobs import Blob, Busy, Gone, Refused, Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator

# Locks are spread over this many files, so that cells seldom wait for one another.
_LOCKS = 64
_LOCK_WAIT_S = 2.0
_LOCK_POLL_S = 0.002
_TEMPORARY = ".tmp-"
# What must outlive the machine. Leases need not: with the machine all its holders are gone, and the epoch
# that counts is that of the log and the snapshots.
_DURABLE = "cells/"


def _token(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class DiskBlobs:
    """Blobs under `root`, created if absent; keys are relative paths. `fsync` off is for tests."""

    def __init__(self, root: Path, *, fsync: bool = True) -> None:
        self.root = root
        self._fsync = fsync
        # next() of a counter is one step of the interpreter: no two threads get the same number.
        self._numbers = itertools.count()
        (root / ".locks").mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Blob | None:
        """Return the object, or None."""
        try:
            data = (self.root / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unanswered(str(error)) from error
        return Blob(data, _token(data))

    def put(self, key: str, data: bytes) -> str:
        """Write without condition."""
        with self._staged(key, data) as staged:
            staged.replace(self.root / key)
        return _token(data)

    def create(self, key: str, data: bytes) -> str:
        """Write if there is none."""
        with self._staged(key, data) as staged:
            try:
                os.link(staged, self.root / key)
            except FileExistsError as error:
                raise Refused(key) from error
        return _token(data)

    def replace(self, key: str, data: bytes, token: str) -> str:
        """Write if the object still has this token."""
        with self._staged(key, data) as staged, self._locked(key):
            present = self.get(key)
            if present is None:
                raise Gone(key)
            if present.token != token:
                raise Refused(key)
            staged.replace(self.root / key)
        return _token(data)

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        try:
            with self._locked(key):
                (self.root / key).unlink(missing_ok=True)
        except OSError as error:
            raise Unanswered(str(error)) from error

    def copy(self, source: str, target: str) -> None:
        """Give the object a second name: objects are never changed in place, so a link is a copy."""
        staged = self._stage_name(target)
        try:
            os.link(self.root / source, staged)
            staged.replace(self.root / target)
        except FileNotFoundError as error:
            raise Gone(source) from error
        except OSError as error:
            raise Unanswered(str(error)) from error
        finally:
            # rename(2) of two names of one file does nothing and keeps both.
            staged.unlink(missing_ok=True)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with `prefix`, in order."""
        folder = self.root / prefix.rpartition("/")[0]
        found: list[str] = []
        for base, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name != ".locks"]
            relative = Path(base).relative_to(self.root).as_posix()
            start = "" if relative == "." else relative + "/"
            found += [start + name for name in names if _TEMPORARY not in name]
        yield from sorted(key for key in found if key.startswith(prefix))

    def _stage_name(self, key: str) -> Path:
        target = self.root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.with_name(f"{target.name}{_TEMPORARY}{os.getpid()}-{id(self):x}-{next(self._numbers)}")

    @contextmanager
    def _staged(self, key: str, data: bytes) -> Iterator[Path]:
        """Yield a complete temporary file beside its target; disk trouble becomes Unanswered."""
        staged = self._stage_name(key)
        try:
            with staged.open("wb") as file:
                file.write(data)
                durable = self._fsync and key.startswith(_DURABLE)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            yield staged
            if durable:
                _sync_folder(staged.parent)
        except OSError as error:
            raise Unanswered(str(error)) from error
        finally:
            staged.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big") % _LOCKS
        with (self.root / ".locks" / str(number)).open("ab") as lock:
            deadline = time.monotonic() + _LOCK_WAIT_S  # noqa: TID251  (a wait on the system, not a decision)
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                        raise
                    if time.monotonic() > deadline:  # noqa: TID251
                        raise Busy(key) from error
                    time.sleep(_LOCK_POLL_S)  # noqa: TID251
            yield


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""What is read of the blob store while the lease is still being won: a guess, worth nothing until it is checked.

Where a call of the store takes long (S3), an activation makes at once what does not build on one another:

    lease read   | manifest read
    lease write  | the newest snapshot's file
    shared log
    manifest read again

Only the file is used as it was fetched, for it is never changed under its name and its digest is known; which file
it must be, and what else is so, is read under the lease (`restore.py`, docs/decisions/0720).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fleetctl.cellz.beside import Beside
from fleetctl.cellz.blobs import Blobs, Unanswered
from fleetctl.cellz.errors import StoreTrouble
from fleetctl.cellz.snapshots import Manifest, Snapshot, fetch, read_manifest

T = TypeVar("T")


class Guess:
    """The manifest and newest snapshot of a cell whose lease is not ours yet; `file` says whether one is needed."""

    def __init__(self, blobs: Blobs, cell: str, beside: Beside, *, file: bool) -> None:
        self.manifest: Manifest | None = None
        self._blobs = blobs
        self._beside = beside
        self._wants_file = file
        self._snapshot: Snapshot | None = None
        self._fetched: Callable[[], bytes | None] | None = None
        self._staged = False
        self._read = beside(lambda: _or_none(lambda: read_manifest(blobs, cell, _not_again)))

    def lease_is_free(self) -> None:
        """Begin to fetch the snapshot's file: it is worth its price when the lease can probably be had."""
        if self._fetched is not None:
            return
        self.manifest = manifest = self._read()
        newest = manifest.snapshots[0] if manifest and manifest.snapshots else None
        # Without a digest it is an original's, which is written anew under the same name.
        if self._wants_file and newest is not None and newest.sha256:
            blobs, self._snapshot = self._blobs, newest
            self._fetched = self._beside(lambda: _or_none(lambda: fetch(blobs, newest, _not_again)))

    def stage(self, path: Path) -> None:
        """Write what was fetched, if it is sound, to `path`."""
        data = self._fetched() if self._fetched is not None and not self._staged else None
        if data is not None:
            path.write_bytes(data)
            self._staged = True

    def staged(self, snapshot: Snapshot) -> bool:
        """Return whether what stands at the path of `stage` is the file of `snapshot`, and sound."""
        return self._staged and snapshot == self._snapshot


class _Once(Exception):
    """A guess is not tried again; what is done under the lease is."""


def _not_again(_: float) -> None:
    raise _Once


def _or_none(call: Callable[[], T | None]) -> T | None:
    try:
        return call()
    except (_Once, Unanswered, StoreTrouble):
        return None

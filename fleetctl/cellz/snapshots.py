"""Snapshots: whole database files, immutable, named by epoch and place, and a manifest that points to them.

    cells/<id>.db.<epoch>-<sequence>-<nonce>   the file, created once
    cells/<id>.meta.json                       CellMeta of the original, and "cellz": the newest snapshots
    cells/<id>.db                              the newest again, where the original looks for it

The manifest is swapped by its token and only towards a higher or equal epoch, so a snapshot is there whole
or not at all, and an old holder cannot put its own over a successor's. Digests are our own (Q7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import orjson

from fleetctl.cellz.blobs import Blobs, Busy, Gone, Refused, Unanswered, retried, write_if
from fleetctl.cellz.conditional import Effect
from fleetctl.cellz.errors import Fenced, StoreTrouble

# Tries to swap the manifest when another write of ours (a backup beside an eviction) comes between.
_SWAPS_MAX = 5


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot: where it is, what it holds, and how to know it whole (`sha256` "" for an original's)."""

    key: str
    epoch: int
    slot: int
    sequence: int
    size: int
    sha256: str


class Manifest(NamedTuple):
    """What the manifest says: its epoch, snapshots newest first, and the token for the next swap."""

    epoch: int
    snapshots: tuple[Snapshot, ...]
    token: str
    sequence: int


EMPTY = Manifest(0, (), "", 0)


def read_manifest(blobs: Blobs, cell: str, sleep: Callable[[float], None]) -> Manifest:
    """Return the cell's manifest; one that an original node wrote points to `cells/<id>.db`.

    Raises StoreTrouble when the store does not answer or the manifest is no JSON.
    """
    key = f"cells/{cell}.meta.json"
    blob = retried(lambda: blobs.get(key), sleep, key)
    if blob is None:
        return EMPTY
    try:
        data: dict[str, Any] = orjson.loads(blob.data)
        sequence = int(data.get("event_sequence", 0))
        ours = data.get("cellz")
        if ours is None:
            plain = Snapshot(f"cells/{cell}.db", 0, 0, sequence, 0, "")
            return Manifest(0, (plain,), blob.token, sequence)
        snapshots = tuple(Snapshot(**each) for each in ours["snapshots"])
        return Manifest(int(ours["epoch"]), snapshots, blob.token, sequence)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreTrouble(f"{key} is damaged: {error}") from error


class Publication(NamedTuple):
    """A file to publish and its place."""

    cell: str
    data: bytes
    meta_json: str
    epoch: int
    slot: int
    sequence: int


class Publisher:
    """Publishes snapshots and keeps the newest `keep` of each cell."""

    def __init__(
        self, blobs: Blobs, *, keep: int, nonce: Callable[[], str], sleep: Callable[[float], None]
    ) -> None:
        self._blobs = blobs
        self._keep = keep
        self._nonce = nonce
        self._sleep = sleep

    def publish(self, what: Publication) -> Manifest:
        """Store the file, swap the manifest, and return it; raises Fenced or StoreTrouble."""
        key = f"cells/{what.cell}.db.{what.epoch:08d}-{what.sequence:012d}-{self._nonce()[:8]}"
        retried(lambda: self._blobs.put(key, what.data), self._sleep, key)
        snapshot = Snapshot(
            key, what.epoch, what.slot, what.sequence, len(what.data), hashlib.sha256(what.data).hexdigest()
        )
        try:
            manifest, dropped = self._swap(what.cell, what.meta_json, what.epoch, snapshot)
        except Fenced:
            self._tidy([key])
            raise
        # Only an original node reads that name; ours read the manifest.
        with suppress(Gone, Busy, Unanswered):
            self._blobs.copy(key, f"cells/{what.cell}.db")
        self._tidy([old.key for old in dropped if old.sha256])
        return manifest

    def _swap(
        self, cell: str, meta_json: str, epoch: int, snapshot: Snapshot
    ) -> tuple[Manifest, tuple[Snapshot, ...]]:
        for _ in range(_SWAPS_MAX):
            present = read_manifest(self._blobs, cell, self._sleep)
            if present.epoch > epoch:
                raise Fenced(f"cell '{cell}' has a snapshot of a newer epoch ({present.epoch} > {epoch})")
            every = (snapshot, *present.snapshots)
            kept, dropped = every[: self._keep], every[self._keep :]
            section = {"epoch": epoch, "nonce": self._nonce(), "snapshots": [asdict(each) for each in kept]}
            data = meta_json[:-1].encode() + b',"cellz":' + orjson.dumps(section) + b"}"
            outcome = write_if(self._blobs, f"cells/{cell}.meta.json", data, present.token, self._sleep)
            if outcome.effect is Effect.WON:
                return Manifest(epoch, kept, outcome.token, snapshot.sequence), dropped
            if outcome.effect is Effect.UNKNOWN:
                break
        raise StoreTrouble(f"the manifest of cell '{cell}' could not be swapped")

    def _tidy(self, keys: list[str]) -> None:
        """Remove files that no manifest names; one that stays costs space and nothing else."""
        for key in keys:
            try:
                self._blobs.delete(key)
            except (Refused, Busy, Unanswered):
                continue


def fetch(blobs: Blobs, snapshot: Snapshot, sleep: Callable[[float], None]) -> bytes | None:
    """Return the snapshot's bytes if they are what the manifest says, or None for a damaged or missing one."""
    blob = retried(lambda: blobs.get(snapshot.key), sleep, snapshot.key)
    if blob is None:
        return None
    if snapshot.sha256 and hashlib.sha256(blob.data).hexdigest() != snapshot.sha256:
        return None
    return blob.data if blob.data.startswith(b"SQLite format 3\x00") else None

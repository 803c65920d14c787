"""Bring a cell's database to where it must be before it serves: decide the base, then replay the shared log.

The decision is pure (`choose`): the local file is right if its epoch is at least the highest that the blob
store shows; otherwise another node wrote since, and the local file is set aside, never overwritten.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fleetctl.cellz.ahead import Guess
from fleetctl.cellz.apply import transact
from fleetctl.cellz.beside import Beside
from fleetctl.cellz.blobs import Blobs
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.errors import Fenced, StoreTrouble
from fleetctl.cellz.ops import Op
from fleetctl.cellz.sharedlog import SharedLog, Slot
from fleetctl.cellz.snapshots import Manifest, Publication, Publisher, Snapshot, fetch, read_manifest
from fleetctl.cellz.trouble import refusal

# Races for the next slot at activation; each loss means another writer is alive, which its lease excludes.
_FENCES_MAX = 16
# Looks at the manifest and the log behind it until no snapshot came between.
_LOOKS_MAX = 8


class Local(NamedTuple):
    """What the local file says about itself."""

    epoch: int
    slot: int
    sequence: int
    clean: bool


class Base(Enum):
    """Where the database comes from."""

    LOCAL = "local"
    LOCAL_AHEAD = "local, and ahead of the blob store"
    REMOTE = "blob store"
    ORIGINAL = "a snapshot that an original node wrote last"
    NEW = "nothing yet"


def choose(local: Local | None, manifest: Manifest, log_epoch: int) -> Base:
    """Return the base for a cell; `log_epoch` is the highest epoch in the shared log, 0 for none."""
    newest = manifest.snapshots[0] if manifest.snapshots else None
    if newest is not None and not newest.sha256 and (local is None or manifest.sequence > local.sequence):
        # It knows no epochs and left our log behind: its own rule, the longer log wins.
        return Base.ORIGINAL
    remote_epoch = max(manifest.epoch, log_epoch)
    remote_there = bool(manifest.snapshots) or log_epoch > 0 or (local is not None and local.slot > 0)
    if local is None:
        return Base.REMOTE if remote_there else Base.NEW
    if not remote_there:
        return Base.LOCAL if local.clean and local.sequence == 0 else Base.LOCAL_AHEAD
    if local.epoch < remote_epoch:
        return Base.REMOTE
    return Base.LOCAL if local.clean else Base.LOCAL_AHEAD


@dataclass(slots=True)
class Restored:
    """An open database, ready to serve under its epoch, and what happened on the way."""

    db: CellDb
    base: Base
    publish_first: bool
    base_epoch: int = 0
    damaged: list[str] = field(default_factory=list)
    replayed: int = 0
    set_aside: str = ""
    snapshot_slot: int = 0
    pending: list[Op] = field(default_factory=list)
    next_alarm: str | None = None
    alarm_key: str = ""


class Restorer:
    """Restores cells of one node. `fence` says whether each activation marks the shared log.

    With `beside`, calls of the store that do not build on one another are made at once.
    """

    def __init__(
        self,
        blobs: Blobs,
        folder: Path,
        *,
        publisher: Publisher,
        fence: bool,
        nonce: Callable[[], str],
        sleep: Callable[[float], None],
        beside: Beside | None = None,
    ) -> None:
        self._publisher = publisher
        self._beside = beside
        self._blobs = blobs
        self._folder = folder
        self._fence = fence
        self._nonce = nonce
        self._sleep = sleep

    def path(self, cell: str) -> Path:
        """Return where the cell's database is on this node."""
        return self._folder / f"{cell}.db"

    def log(self, cell: str, epoch: int) -> SharedLog:
        """Return the cell's shared log under `epoch`."""
        return SharedLog(self._blobs, cell, epoch, nonce=self._nonce, sleep=self._sleep, beside=self._beside)

    def look_ahead(self, cell: str) -> Guess | None:
        """Begin to read what `restore` will need, before the lease is held; None where that gains nothing."""
        if self._beside is None:
            return None
        return Guess(self._blobs, cell, self._beside, file=not self.path(cell).exists())

    def restore(self, cell: str, epoch: int, guess: Guess | None = None) -> Restored:
        """Return the open database of `cell` under `epoch`, which the caller's lease grants.

        Raises Quarantined (local file damaged), StoreTrouble, or Fenced when a newer epoch shows.
        """
        path = self.path(cell)
        log = self.log(cell, epoch)
        db = _open_local(cell, path)
        try:
            local = Local(db.epoch, db.slot, db.sequence, db.clean) if db else None
            manifest, ahead = self._look(cell, log, local, guess)
            log_epoch = max((slot.epoch for slot in ahead), default=0)
            if max(manifest.epoch, log_epoch) > epoch:
                raise Fenced(f"cell '{cell}' shows epoch {max(manifest.epoch, log_epoch)} above our {epoch}")
            base = choose(local, manifest, log_epoch)
            if base in (Base.REMOTE, Base.ORIGINAL) and db is not None:
                db.close()
        except BaseException:
            if db is not None:
                db.close()
            raise
        restored = self._open(cell, path, base, db, manifest, guess)
        try:
            if base is Base.ORIGINAL:
                # Its snapshot is ahead of the slots there are; ours go on behind them.
                restored.db.slot, ahead = log.last(), []
            elif restored.db.slot < _start(local, manifest):
                ahead = list(log.read(restored.db.slot))
            self._catch_up(restored, log, epoch, ahead, manifest)
        except BaseException:
            restored.db.close()
            raise
        if manifest.snapshots:
            restored.snapshot_slot = manifest.snapshots[0].slot
        return restored

    def _look(
        self, cell: str, log: SharedLog, local: Local | None, guess: Guess | None
    ) -> tuple[Manifest, list[Slot]]:
        """Return the manifest and the log behind it, as they are under the lease.

        The manifest is looked at once more after the log: an old holder that wakes up may publish a snapshot and trim
        the log between, and what is missing there would pass for its end. A guess stands for the first look only.
        """
        manifest = guess.manifest if guess is not None else None
        if manifest is None:
            manifest = read_manifest(self._blobs, cell, self._sleep)
        for _ in range(_LOOKS_MAX):
            ahead = list(log.read(_start(local, manifest)))
            again = partial(read_manifest, self._blobs, cell, self._sleep)
            second = self._beside(again) if self._beside is not None else again
            if guess is not None:
                guess.stage(_staged(self.path(cell)))
            manifest, before = second(), manifest
            if manifest.token == before.token:
                return manifest, ahead
        raise StoreTrouble(f"the snapshots of cell '{cell}' do not stand still")

    def _open(
        self, cell: str, path: Path, base: Base, db: CellDb | None, manifest: Manifest, guess: Guess | None
    ) -> Restored:
        if base not in (Base.REMOTE, Base.ORIGINAL):
            here = db or CellDb(cell, path)
            return Restored(here, base, publish_first=base is Base.LOCAL_AHEAD, base_epoch=here.epoch)
        aside = _set_aside(path, f"epoch-{db.epoch}", keep=not db.clean) if db else ""
        damaged: list[str] = []
        for snapshot in manifest.snapshots:
            found = self._try(cell, path, snapshot, guess)
            if found is not None:
                return Restored(
                    found,
                    base,
                    publish_first=False,
                    base_epoch=snapshot.epoch,
                    damaged=damaged,
                    set_aside=aside,
                )
            damaged.append(snapshot.key)
        if manifest.snapshots:
            raise StoreTrouble(f"no snapshot of cell '{cell}' is sound: {', '.join(damaged)}")
        return Restored(CellDb(cell, path), base, publish_first=False, set_aside=aside)

    def _try(self, cell: str, path: Path, snapshot: Snapshot, guess: Guess | None) -> CellDb | None:
        """Return the database of a snapshot, or None if the snapshot is damaged."""
        staged = _staged(path)
        if guess is None or not guess.staged(snapshot):
            data = fetch(self._blobs, snapshot, self._sleep)
            if data is None:
                return None
            staged.write_bytes(data)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        staged.replace(path)
        try:
            db = CellDb(cell, path)
            # A digest proves the bytes; without one (an original's snapshot) SQLite has to look.
            if not snapshot.sha256 and not db.healthy():
                raise sqlite3.DatabaseError("quick_check failed")
        except sqlite3.DatabaseError:
            path.unlink(missing_ok=True)
            return None
        db.slot = snapshot.slot
        return db

    def _catch_up(
        self, restored: Restored, log: SharedLog, epoch: int, ahead: list[Slot], manifest: Manifest
    ) -> None:
        """Replay what the log has beyond the base, put our fence, and write our epoch down."""
        db = restored.db
        number = db.slot
        if not restored.publish_first:
            number = self._replay_all(restored, ahead, number)
        elif ahead:
            number = max(number, ahead[-1].number)
        if self._fence or number > 0:
            if restored.publish_first and self._fence:
                # What the local file has beyond the log must be in a snapshot before the log goes on.
                self._publish(db, epoch, number)
                restored.publish_first = False
                gap = True
            else:
                gap = False
            number = self._put_fence(restored, log, epoch, number, gap, manifest)
        clean = not restored.publish_first
        db.begin(lambda: db.place(epoch=epoch, slot=number, clean=int(clean)))

    def _replay_all(self, restored: Restored, slots: list[Slot], number: int) -> int:
        for slot in slots:
            if slot.number <= number:
                continue
            if slot.number > number + 1 or (slot.gap and restored.base_epoch < slot.epoch):
                raise StoreTrouble(
                    f"cell '{restored.db.cell}' cannot be rebuilt: its log does not follow the snapshot at place "
                    f"{number}, and the newer snapshot is damaged"
                )
            number = slot.number
            restored.replayed += _replay(restored.db, slot)
        return number

    def _put_fence(
        self, restored: Restored, log: SharedLog, epoch: int, number: int, gap: bool, manifest: Manifest
    ) -> int:
        """Fill the next slot with our fence, replaying what an old holder wrote before us."""
        trimmed = StoreTrouble(f"the log of cell '{restored.db.cell}' was trimmed; try again")
        for tries in range(_FENCES_MAX):
            try:
                log.write(number + 1, [], fence=True, gap=gap)
            except Fenced:
                slots = list(log.read(number))
                if any(slot.epoch > epoch for slot in slots):
                    raise
                if not slots:
                    # It was filled, and trimmed since: an old holder published a snapshot that is to be read first.
                    raise trimmed from None
                number = self._replay_all(restored, slots, number)
                continue
            if tries:
                # While we read what it wrote, it may have trimmed behind our eyes, and our fence filled such a place.
                again = read_manifest(self._blobs, restored.db.cell, self._sleep)
                if again.token != manifest.token:
                    raise trimmed
            return number + 1
        raise StoreTrouble(f"cell '{restored.db.cell}' is written by another node while we hold its lease")

    def _publish(self, db: CellDb, epoch: int, number: int) -> None:
        db.checkpoint()
        if not db.exists:
            return
        data = db.path.read_bytes()
        self._publisher.publish(Publication(db.cell, data, db.meta().json(), epoch, number, db.sequence))


def _staged(path: Path) -> Path:
    """Return where a database is put together; what is left there is removed at the next start."""
    return path.with_name(path.name + ".tmp")


def _start(local: Local | None, manifest: Manifest) -> int:
    """Return the slot behind which the log is to be read."""
    start = manifest.snapshots[0].slot if manifest.snapshots else 0
    return max(start, local.slot) if local and local.epoch >= manifest.epoch else start


def _replay(db: CellDb, slot: Slot) -> int:
    if slot.ops:
        transact(db, slot.ops)
    return len(slot.ops)


def _open_local(cell: str, path: Path) -> CellDb | None:
    """Return the open local database, or None without one; raises Quarantined for a damaged one."""
    if not path.exists():
        return None
    try:
        return CellDb(cell, path)
    except sqlite3.Error as error:
        raise refusal(cell, error) from error


def _set_aside(path: Path, why: str, *, keep: bool) -> str:
    """Move a database out of the way, or remove it when the blob store has all of it."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    if not keep:
        path.unlink()
        return ""
    number = 0
    while (target := path.with_name(f"{path.name}.aside-{why}-{number}")).exists():
        number += 1
    path.rename(target)
    return target.name


def set_damaged_aside(path: Path) -> str:
    """Move a damaged database and its WAL out of the way and return the new name."""
    number = 0
    while (target := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            source.rename(f"{target}{suffix}")
    return target.name

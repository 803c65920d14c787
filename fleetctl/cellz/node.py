"""One node: its cells, and what they need from it (settings, pool, blob store, lease terms).

The node answers `active(id)` with a cell that may be used now; `upkeep` does what time brings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fleetctl.cellz.ahead import Guess
from fleetctl.cellz.alarms import alarm_key
from fleetctl.cellz.apply import Applied, next_alarm, transact
from fleetctl.cellz.beside import on_threads
from fleetctl.cellz.blobs import Blobs
from fleetctl.cellz.clock import Clock, Ids
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.errors import CellzError, Fenced, NotOpen, NotReady
from fleetctl.cellz.lease import Terms
from fleetctl.cellz.lifecycle import State
from fleetctl.cellz.metrics import Metrics
from fleetctl.cellz.ops import Create, Op
from fleetctl.cellz.pool import Pool
from fleetctl.cellz.resident import Cell
from fleetctl.cellz.restore import Restored, Restorer
from fleetctl.cellz.settings import Settings
from fleetctl.cellz.snapshots import Publication, Publisher, read_manifest
from fleetctl.cellz.tenure import Holder

log = logging.getLogger("cellz")

T = TypeVar("T")

# How often a request follows its cell through an eviction before it gives up.
_FOLLOWS_MAX = 8


class Node:
    """A running node; call `start` on its event loop, and `drain` before leaving it."""

    def __init__(
        self, settings: Settings, blobs: Blobs, node_id: str, *, clock: Clock, ids: Ids, address: str
    ) -> None:
        self.settings = settings
        self.blobs = blobs
        self.node_id = node_id
        self.clock = clock
        self.ids = ids
        self.address = address
        self.metrics = Metrics()
        self.cells: dict[str, Cell] = {}
        self.open_cells: dict[str, Cell] = {}
        self.alarmed: dict[str, str] = {}
        self.draining = False
        # Cells whose WAL is long, in the order in which that was seen.
        self._long_wals: dict[Cell, None] = {}
        self._recycling = False
        self.ship_first = settings.sync.mode == "commit"
        self.ship_later = settings.sync.mode == "interval"
        self.reads_inline = not self.ship_first
        self.epoch = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        sleep = clock.sleep
        self.holder = Holder(blobs, clock, Terms(node_id, settings.lease_ttl), address, ids.token, sleep)
        self.publisher = Publisher(blobs, keep=settings.snapshot_keep, nonce=ids.token, sleep=sleep)
        self.restorer = Restorer(
            blobs,
            settings.data_dir,
            publisher=self.publisher,
            fence=settings.sync.mode != "evict",
            nonce=ids.token,
            sleep=sleep,
            # A disk answers before a thread wakes up.
            beside=on_threads() if settings.backend == "s3" else None,
        )
        self.pool: Pool

    def start(self) -> None:
        """Start the pool on the running loop."""
        self.pool = Pool(self.settings.threads, asyncio.get_running_loop(), self.clock.monotonic)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as a task that the node keeps until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- for requests -------------------------------------------------------------------------------

    async def active(self, cell_id: str, birth: tuple[str, str] | None = None) -> Cell:
        """Return the cell, active on this node; `birth` is (name, metadata) for a cell that is new.

        Raises HeldElsewhere, StoreTrouble, Quarantined or NotReady.
        """
        cell = self.cells.get(cell_id)
        if cell is None:
            self.admit()
            cell = self.cells[cell_id] = Cell(cell_id, self, self.restorer.path(cell_id))
        if cell.state is not State.ACTIVE:
            if birth is not None:
                cell.birth = birth
            await cell.wanted()
        return cell

    async def write(self, cell_id: str, op: Op) -> Applied:
        """Apply `op` to a cell, activating it if need be; raises what refuses it."""
        for _ in range(_FOLLOWS_MAX):
            cell = await self.active(cell_id)
            try:
                return await cell.write(op)
            except NotOpen:
                continue
        raise NotOpen(f"cell '{cell_id}' does not stay open here; try again")

    async def read(self, cell_id: str, read: Callable[[CellDb], T], *, long: bool = False) -> T:
        """Run a read on a cell, activating it if need be; `long` reads keep off the loop."""
        for _ in range(_FOLLOWS_MAX):
            cell = await self.active(cell_id)
            try:
                return await (cell.read_apart(read) if long else cell.read(read))
            except NotOpen:
                continue
        raise NotOpen(f"cell '{cell_id}' does not stay open here; try again")

    async def evict(self, cell_id: str) -> None:
        """Put the cell down if it is here; raises why it had to stay."""
        cell = self.cells.get(cell_id)
        if cell is not None:
            await cell.evict()

    def admit(self) -> None:
        """Refuse a cell that would have to be activated now; raises NotReady."""
        if self.draining:
            raise NotReady

    def resident(self) -> list[Cell]:
        """Return the active cells."""
        return [cell for cell in self.cells.values() if cell.state in (State.ACTIVE, State.SAVING)]

    # -- for cells ----------------------------------------------------------------------------------

    def report(self, what: str, cell: str, **facts: object) -> None:
        """Log something an operator should know; never a payload."""
        log.warning(what, extra={"facts": {"cell": cell, **facts}})

    def moved(self, cell: Cell) -> None:
        """Take note of where a cell came to rest."""
        self.metrics.moves.labels(cell.state.value).inc()
        if cell.state is State.ACTIVE:
            self.epoch = max(self.epoch, cell.tenure.standing.epoch)
            self.opened(cell)
            if cell.next_alarm is not None:
                self.alarmed[cell.id] = cell.next_alarm
            return
        self.open_cells.pop(cell.id, None)
        self.alarmed.pop(cell.id, None)
        if cell.state is State.ABSENT and not cell.tenure.standing.seen_token:
            self.cells.pop(cell.id, None)

    def wal_is_long(self, cell: Cell) -> None:
        """Have a cell's WAL recycled, one after the other: they wait for one disk, and share a processor with the loop."""
        self._long_wals[cell] = None
        if not self._recycling:
            self._recycle_next()

    def _recycle_next(self, _: object = None) -> None:
        self._recycling = False
        while self._long_wals and not self._recycling:
            cell = next(iter(self._long_wals))
            del self._long_wals[cell]
            recycled = cell.recycle_wal()
            if recycled is not None:
                self._recycling = True
                recycled.add_done_callback(self._recycle_next)

    def opened(self, cell: Cell) -> None:
        """Take note of an open database."""
        self.open_cells[cell.id] = cell

    def wrote(self, cell: Cell, applied: Applied) -> None:
        """Take note of a write."""
        self.metrics.appended += len(applied.records)
        if applied.alarms:
            cell.next_alarm = applied.next_alarm
            if applied.next_alarm is None:
                self.alarmed.pop(cell.id, None)
            else:
                self.alarmed[cell.id] = applied.next_alarm
        db = cell.db
        if (
            self.ship_first
            and db is not None
            and db.slot - cell.snapshot_slot >= self.settings.snapshot_slots
        ):
            cell.snapshot_slot = db.slot
            self.spawn(self.save_quietly(cell))

    def bring_up(self, cell: Cell, epoch: int, guess: Guess | None) -> Restored:
        """Restore the cell's database, and make its first row if it is new; runs on the pool."""
        began = self.clock.monotonic()
        restored = self.restorer.restore(cell.id, epoch, guess)
        db = restored.db
        try:
            if not db.exists:
                name, metadata = cell.birth or (cell.id, "{}")
                create = Create(name, metadata, self.clock.stamp())
                log_ = self.restorer.log(cell.id, epoch)
                transact(db, [create], partial(self._ship, log_, db) if self.ship_first else None)
                restored.pending = [create] if self.ship_later else []
            else:
                db.set_status("active", self.clock.stamp())
            restored.next_alarm = next_alarm(db)
            restored.alarm_key = alarm_key(cell.id, restored.next_alarm)
        except BaseException:
            db.close()
            raise
        self.metrics.activation.observe(self.clock.monotonic() - began)
        return restored

    def highest_epoch(self, cell_id: str) -> int:
        """Return the highest epoch that the blob store shows for a cell; runs on the pool."""
        manifest = read_manifest(self.blobs, cell_id, self.clock.sleep)
        start = manifest.snapshots[0].slot if manifest.snapshots else 0
        slots = self.restorer.log(cell_id, 0).read(start)
        return max((slot.epoch for slot in slots), default=manifest.epoch)

    def shipper(self, cell: Cell) -> Callable[[list[Op]], int]:
        """Return what writes a transaction to the shared log before it is committed."""
        db = cell.db
        assert db is not None
        return partial(self._ship, self.restorer.log(cell.id, cell.tenure.standing.epoch), db)

    @staticmethod
    def _ship(log_: Any, db: CellDb, ops: list[Op]) -> int:
        number = db.slot + 1
        log_.write(number, ops)
        return number

    # -- snapshots and shipping ---------------------------------------------------------------------

    async def ship(self, cell: Cell) -> None:
        """Write the pending ops of a cell to its shared log; raises Fenced or StoreTrouble."""
        async with cell.ship_lock:
            if cell.pending:
                # A copy: the list grows while the upload is under way.
                await self._ship_pending(cell, list(cell.pending), cell.delivered)

    async def _ship_pending(self, cell: Cell, ops: list[Op], delivered: int) -> None:
        """Ship `ops`, the first of the cell's pending ones, and note in the database what is there."""
        log_ = self.restorer.log(cell.id, cell.tenure.standing.epoch)
        number = cell.slot + 1
        if not cell.tenure.valid():
            raise Fenced(f"the lease of cell '{cell.id}' ended before it was renewed")
        await self.pool.io(lambda: log_.write(number, ops))
        cell.slot = number
        del cell.pending[: len(ops)]

        def note(db: CellDb) -> None:
            db.place(slot=number, clean=int(cell.applied == delivered))

        await cell.read_apart(note)

    async def save(self, cell: Cell, *, always: bool = False) -> None:
        """Publish a snapshot if the blob store lacks something, and trim the shared log.

        Raises Fenced, StoreTrouble or Quarantined.
        """
        async with cell.ship_lock:
            ops: list[Op] = []
            marks: list[int] = []

            def in_turn(_: object) -> None:
                ops.extend(cell.pending)
                marks.append(cell.delivered)

            publication, unchanged = await cell.read_apart(partial(_copy, cell, always), in_turn)
            if publication is None:
                return
            if ops:
                await self._ship_pending(cell, list(ops), marks[0])
            if self.ship_later:
                publication = publication._replace(slot=cell.slot)
            manifest = await self.pool.io(lambda: self.publisher.publish(publication))
            cell.snapshot_slot = publication.slot
            await cell.read_apart(lambda db: _mark_clean(cell, db, unchanged))
            self.metrics.snapshots += 1
            through = min(each.slot for each in manifest.snapshots)
            if through > 0:
                log_ = self.restorer.log(cell.id, publication.epoch)
                await self.pool.io(lambda: log_.trim(through))

    async def save_quietly(self, cell: Cell) -> None:
        """Save, and turn what fails into the cell's fate or a log line."""
        await self.quietly(cell, lambda: self.save(cell))

    async def quietly(self, cell: Cell, work: Callable[[], Awaitable[None]]) -> None:
        """Run upkeep for a cell: a lost lease drops it, other trouble is reported and tried again."""
        try:
            await work()
        except Fenced as error:
            cell.lost(error)
        except CellzError as error:
            self.metrics.trouble += 1
            self.report(str(error), cell.id, code=error.code)


def _copy(cell: Cell, always: bool, db: CellDb) -> tuple[Publication | None, int]:
    """Return the database file as it is now, and the number of writes in it; in the cell's turn."""
    if db.clean and not always and db.slot <= cell.snapshot_slot + 1:
        return None, 0
    db.checkpoint()
    data = Path(db.path).read_bytes()
    epoch = cell.tenure.standing.epoch
    return Publication(db.cell, data, db.meta().json(), epoch, db.slot, db.sequence), cell.applied


def _mark_clean(cell: Cell, db: CellDb, unchanged: int) -> None:
    if cell.applied == unchanged and not db.clean:
        db.place(clean=1)

"""A cell on this node: its queue, its database handle and its moves through the lifecycle.

Everything here runs on the event loop except `run_read`, `run_writes` of what is not light, and the calls handed
to the pool.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fleetctl.cellz import lifecycle
from fleetctl.cellz.apply import Applied, transact
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.errors import CellzError, Fenced, NotOpen, Quarantined, StoreTrouble
from fleetctl.cellz.feed import Feed
from fleetctl.cellz.lifecycle import Effect, Event, State
from fleetctl.cellz.ops import Op, is_light
from fleetctl.cellz.queue import JobQueue
from fleetctl.cellz.restore import Restored, set_damaged_aside
from fleetctl.cellz.tenure import Tenure
from fleetctl.cellz.trouble import patiently, told

if TYPE_CHECKING:
    from fleetctl.cellz.node import Node

T = TypeVar("T")

# Writes kept for a blob store that does not answer, in interval mode; beyond, a cell takes no more.
PENDING_MAX = 50_000
# Writes between two looks at the size of the WAL.
_LOOK_AT_WAL_EVERY = 64


class Cell:
    """One cell of `node`; created absent."""

    __slots__ = (
        "_brought",
        "_closing",
        "_driving",
        "_failure",
        "_node",
        "_queue",
        "_writes",
        "alarm_key",
        "alarm_lock",
        "applied",
        "birth",
        "db",
        "delivered",
        "feed",
        "id",
        "last_used",
        "next_alarm",
        "path",
        "pending",
        "pending_since",
        "ship_lock",
        "slot",
        "snapshot_slot",
        "state",
        "tenure",
    )

    def __init__(self, cell: str, node: Node, path: Path) -> None:
        self.id = cell
        self.path = path
        self.state = State.ABSENT
        self.tenure = Tenure(cell, node.holder)
        self.db: CellDb | None = None
        self.feed: Feed | None = None
        self.pending: list[Op] = []
        self.pending_since = 0.0
        self.ship_lock = asyncio.Lock()
        self.slot = 0
        self.snapshot_slot = 0
        # Writes that ran, and writes that were noticed on the loop: equal when `pending` has them all.
        self.applied = 0
        self.delivered = 0
        self.last_used = 0.0
        self.next_alarm: str | None = None
        self.alarm_key = ""
        self.alarm_lock = asyncio.Lock()
        self.birth: tuple[str, str] | None = None
        self._node = node
        self._queue = JobQueue(self, node.pool)
        self._brought: Restored | Exception | None = None
        self._closing = False
        self._driving: asyncio.Task[None] | None = None
        self._failure: CellzError | None = None
        self._writes = 0

    async def wanted(self) -> None:
        """Make the cell active; raises why it cannot be."""
        while self.state is not State.ACTIVE:
            if self._driving is None:
                if self.state is State.QUARANTINED and self._failure is not None:
                    raise self._failure
                self._node.admit()
                self._start(Event.WANTED)
            await self._settled()
            if self._failure is not None and self.state not in (State.ACTIVE,):
                raise self._failure

    async def evict(self) -> None:
        """Save a snapshot and put the cell down; raises why it had to stay."""
        while self._driving is not None:
            await self._settled()
        self._start(Event.EVICT)
        await self._settled()
        if self._failure is not None:
            raise self._failure

    def lost(self, error: CellzError) -> None:
        """Drop the cell: its lease is another's, or nobody knows what the shared log holds."""
        if self.state is State.ACTIVE and self._driving is None:
            self._start(Event.LOST, error)

    async def _settled(self) -> None:
        driving = self._driving
        if driving is not None:
            # The move goes on when a client that waits for it goes away.
            await asyncio.shield(driving)

    def _start(self, event: Event, failure: CellzError | None = None) -> None:
        self._failure = failure
        self._driving = self._node.spawn(self._drive(event))

    async def _drive(self, event: Event | None) -> None:
        try:
            while event is not None:
                self.state, effect = lifecycle.on_event(self.state, event)
                event = await self._perform(effect)
        finally:
            self._driving = None
            self._node.moved(self)

    async def _perform(self, effect: Effect) -> Event | None:
        if effect is Effect.ACQUIRE:
            return await self._attempt(self._acquire, Event.GRANTED, Event.REFUSED)
        if effect is Effect.RESTORE:
            return await self._attempt(self._restore, Event.RESTORED, Event.FAILED)
        if effect is Effect.SAVE:
            return await self._attempt(lambda: self._node.save(self), Event.SAVED, Event.FAILED)
        if effect is Effect.RELEASE:
            await self._put_down()
            await self._node.pool.io(self.tenure.release)
            return Event.DOWN
        if effect is Effect.DROP:
            await self._put_down()
            return Event.DOWN
        if effect is Effect.SET_ASIDE:
            self._failure = None
            name = await self._node.pool.io(lambda: set_damaged_aside(self.path))
            self._node.report("damaged database set aside", self.id, file=name)
            return Event.DOWN
        if effect is Effect.SERVE:
            self.last_used = self._node.clock.monotonic()
        return None

    async def _attempt(self, what: Callable[[], Any], done: Event, failed: Event) -> Event:
        """Run a step and return the event that its outcome is."""
        try:
            await what()
        except (CellzError, sqlite3.Error, OSError) as error:
            self._failure = told(self.id, error)
            if isinstance(self._failure, Fenced) and failed is not Event.REFUSED:
                return Event.LOST
            return Event.DAMAGED if isinstance(self._failure, Quarantined) else failed
        return done

    async def _acquire(self) -> None:
        denied = self.tenure.denied_now()
        if denied is not None:
            raise denied
        await self._node.pool.io(self._take)

    def _take(self) -> None:
        """Take the lease and, without another switch of threads, bring the database up; on the pool."""
        guess = self._node.restorer.look_ahead(self.id)
        epoch = self.tenure.acquire(guess.lease_is_free if guess is not None else None)
        try:
            self._brought = self._node.bring_up(self, epoch, guess)
        except (CellzError, sqlite3.Error, OSError) as error:
            self._brought = error

    async def _restore(self) -> None:
        brought, self._brought = self._brought, None
        if isinstance(brought, Fenced):
            # A newer epoch shows although the lease was free (an original node deletes leases): rise above it.
            await self._node.pool.io(lambda: self.tenure.learn(self._node.highest_epoch(self.id)))
            raise StoreTrouble(f"cell '{self.id}' shows a newer epoch; try again") from brought
        if isinstance(brought, Exception):
            raise brought
        assert brought is not None
        self._adopt(brought)

    def _adopt(self, restored: Restored) -> None:
        self.db = restored.db
        self.slot = restored.db.slot
        self.snapshot_slot = restored.snapshot_slot
        self.applied = self.delivered = 0
        self.pending = list(restored.pending)
        self.next_alarm = restored.next_alarm
        self.alarm_key = restored.alarm_key
        self.birth = None
        self._closing = False
        for key in restored.damaged:
            self._node.report("damaged snapshot passed over", self.id, key=key)
        if restored.set_aside:
            self._node.report("unsynced tail set aside: outrun by a node", self.id, file=restored.set_aside)

    async def _put_down(self) -> None:
        """Close feed and database after whatever is queued."""
        if self.feed is not None:
            self.feed.close()
            self.feed = None
        if self.db is not None:
            self._closing = True
            try:
                await self._enqueue(None, self._close)
            except (CellzError, sqlite3.Error):
                self.db = None
        self.pending = []

    # -- the queue ----------------------------------------------------------------------------------

    async def write(self, op: Op) -> Applied:
        """Apply `op` in its turn; raises what refuses it. In commit mode it returns after the shared log has it."""
        result: Applied = await self._enqueue(op)
        return result

    async def read(self, read: Callable[[CellDb], T]) -> T:
        """Run a read in its turn."""
        db = self.db
        if db is not None and self._queue.idle() and self._node.reads_inline:
            self.last_used = self._node.clock.monotonic()
            try:
                return read(db)
            except sqlite3.Error as error:
                raise self._troubled(error) from error
        result: T = await self._enqueue(None, read)
        return result

    async def read_apart(self, read: Callable[[CellDb], T], then: Callable[[T], None] | None = None) -> T:
        """Run a read on the pool, in its turn, and `then` on the loop before any later write is noticed."""
        result: T = await self._enqueue(None, read, then)
        return result

    def _enqueue(
        self,
        op: Op | None,
        read: Callable[[CellDb], Any] | None = None,
        then: Callable[[Any], None] | None = None,
        *,
        yielding: bool = False,
    ) -> asyncio.Future[Any]:
        self.last_used = self._node.clock.monotonic()
        return self._queue.put(op, read, then, yielding=yielding)

    def light(self, op: Op) -> bool:
        """Return whether a write is short and waits for nothing but the page cache."""
        return self.db is not None and not self._node.ship_first and is_light(op)

    def run_read(self, read: Callable[[CellDb], Any]) -> Any:
        try:
            return read(self._handle())
        except (sqlite3.Error, CellzError, OSError, KeyError) as error:
            return error

    def run_writes(self, ops: list[Op], *, patient: bool) -> list[Any]:
        """Apply ops as one transaction; an error is every op's result. `patient` only on a pool thread."""
        try:
            if not self.tenure.valid():
                raise Fenced(f"the lease of cell '{self.id}' ended before it was renewed")
            if len(self.pending) >= PENDING_MAX:
                raise StoreTrouble(
                    f"cell '{self.id}' has {PENDING_MAX} writes that the blob store does not take"
                )
            db = self._handle()
            ship = self._node.shipper(self) if self._node.ship_first else None
            results: list[Any] = []
            if patient:
                results += patiently(lambda: transact(db, ops, ship), self._node.clock.sleep)
            else:
                results += transact(db, ops, ship)
            self.applied += len(ops)
            return results
        except (sqlite3.Error, CellzError, OSError) as error:
            return [error] * len(ops)

    def _handle(self) -> CellDb:
        """Return the open database, opening it again if it was closed to save memory."""
        if self.db is None:
            if self.state not in (State.ACTIVE, State.SAVING) or self._closing:
                raise NotOpen(f"cell '{self.id}' is not open here; try again")
            self.db = CellDb(self.id, self.path)
            self._node.opened(self)
        return self.db

    def noticed(self, op: Op | None, result: Any) -> Any:
        """Take note of a job's result on the loop, and return what its waiter is told."""
        if isinstance(result, (sqlite3.Error, OSError)):
            result = self._troubled(result)
        if op is not None:
            self._written(op, result)
        return result

    def _written(self, op: Op, result: Applied | CellzError) -> None:
        """Broadcast what was written, remember what is to be shipped, and notice a lost lease."""
        self.delivered += 1
        self._look_at_wal()
        if isinstance(result, Applied):
            if self._node.ship_later:
                if not self.pending:
                    self.pending_since = self._node.clock.monotonic()
                self.pending.append(op)
            if self.feed is not None and (result.records or result.cut is not None):
                self.feed.publish(result.records, result.cut)
            self._node.wrote(self, result)
        elif isinstance(result, StoreTrouble) and (isinstance(result, Fenced) or self._node.ship_first):
            self.lost(result)

    def _look_at_wal(self) -> None:
        """Have a long WAL moved into the database now and then, on the pool: that waits for the disk."""
        self._writes += 1
        if self._writes >= _LOOK_AT_WAL_EVERY:
            self._writes = 0
            if self.db is not None and self.db.wal_is_long():
                self._node.wal_is_long(self)

    def recycle_wal(self) -> asyncio.Future[None] | None:
        """Begin to move a long WAL into the database, in its turn; None if it was put down or closed meanwhile."""
        if self.db is None or self._closing or not self.db.wal_is_long():
            return None
        return self._enqueue(None, CellDb.recycle_wal, yielding=True)

    def _troubled(self, error: sqlite3.Error | OSError) -> CellzError:
        refused = told(self.id, error)
        if isinstance(refused, Quarantined) and self.state is State.ACTIVE and self._driving is None:
            self._start(Event.DAMAGED, refused)
        return refused

    def idle(self) -> bool:
        """Return whether nothing runs or waits here."""
        return self._queue.idle() and self._driving is None

    async def close_handle(self) -> None:
        """Close the database but stay resident; the next query opens it again."""
        if self.idle() and self.db is not None and self.state is State.ACTIVE:
            await self._enqueue(None, self._shut)

    def _close(self, db: CellDb) -> None:
        self.db = None
        with closing(db):
            db.set_status("suspended", self._node.clock.stamp())

    def _shut(self, db: CellDb) -> None:
        db.checkpoint()
        db.close()
        self.db = None

    async def subscribe(self) -> Feed:
        """Return the live feed, starting it if this is the first reader."""
        while (feed := self.feed) is None:
            db = self.db
            if self.idle() and db is not None:
                self.feed = Feed(db.branch, db.sequence)
            else:
                # The feed starts in the queue's order, so that no write falls between.
                await self._enqueue(None, lambda db: (db.branch, db.sequence), self._start_feed)
        feed.readers += 1
        return feed

    def _start_feed(self, place: tuple[int, int]) -> None:
        if self.feed is None:
            self.feed = Feed(*place)

    def unsubscribe(self, feed: Feed) -> None:
        """Leave the feed; the last reader ends it."""
        feed.readers -= 1
        if feed.readers == 0 and self.feed is feed:
            self.feed = None

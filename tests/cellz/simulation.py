"""A seeded world of nodes on one blob store: the daemon's own code, one thread at a time, one seed one history.

Each node runs the production lease, shared log, restore and snapshot code in a thread of its own, but only
the thread that holds the baton runs, and it gives the baton back at every call to the store or the clock.
There it may be killed, stopped for longer than a TTL, or its call may be lost, late, refused or twice slow.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from fleetctl.cellz.apply import Applied, transact
from fleetctl.cellz.blobs import Blob, Busy, Gone, Refused, Unanswered
from fleetctl.cellz.clock import Clock
from fleetctl.cellz.errors import CellzError
from fleetctl.cellz.lease import Terms
from fleetctl.cellz.ops import Append, Create, Op
from fleetctl.cellz.restore import Restored, Restorer
from fleetctl.cellz.snapshots import Publication, Publisher
from fleetctl.cellz.tenure import Holder, Tenure
from fleetctl.cellz.words import NewEvent

T = TypeVar("T")

CELL = "c"
TTL_S = 2.0
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The node's process is gone."""


class Broken(AssertionError):
    """The world saw something that must never be."""


@dataclass
class Odds:
    """How likely a store call goes wrong, by kind, and how often nodes are killed or stopped."""

    failed: float = 0.04
    lost: float = 0.05
    late: float = 0.04
    busy: float = 0.04
    kill: float = 0.006
    stop: float = 0.01


@dataclass
class World:
    """The shared store, true time, and what clients were told."""

    seed: int
    folder: Path
    odds: Odds = field(default_factory=Odds)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now = 0.0
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.tokens = 0
        self.late: list[Callable[[], object]] = []
        self.actors: list[Actor] = []
        self.acked: dict[int, str] = {}
        self.faults = True
        self.main = threading.Semaphore(0)

    # -- the store ----------------------------------------------------------------------------------

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def create(self, key: str, data: bytes) -> str:
        if key in self.objects:
            raise Refused(key)
        return self.put(key, data)

    def replace(self, key: str, data: bytes, token: str) -> str:
        if key not in self.objects:
            raise Gone(key)
        if self.objects[key][1] != token:
            raise Refused(key)
        return self.put(key, data)

    def put(self, key: str, data: bytes) -> str:
        made = self.token()
        self.objects[key] = (data, made)
        return made

    # -- what clients see ---------------------------------------------------------------------------

    def ack(self, sequence: int, event_id: str) -> None:
        known = self.acked.setdefault(sequence, event_id)
        if known != event_id:
            raise Broken(f"sequence {sequence} was acknowledged twice: {known} and {event_id}")

    def check_holders(self) -> None:
        holders = [actor.name for actor in self.actors if actor.holds()]
        if len(holders) > 1:
            raise Broken(f"{holders} hold the cell at once, at {self.now:.2f}")

    # -- the scheduler ------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Let the nodes run for `steps` turns, then end them all."""
        try:
            for _ in range(steps):
                self.now += self.random.random() * 0.06
                if self.late and self.random.random() < 0.2:
                    landing = self.late.pop(self.random.randrange(len(self.late)))
                    with suppress(Refused, Gone):
                        landing()
                ready = [actor for actor in self.actors if actor.wakes <= self.now]
                if ready:
                    self.random.choice(ready).turn()
                self.check_holders()
                for actor in self.actors:
                    if actor.error is not None:
                        raise actor.error
        finally:
            self.end()

    def end(self) -> None:
        """Kill every node, and let late writes land."""
        for actor in self.actors:
            actor.kill()
        self.actors = []
        for landing in self.late:
            with suppress(Refused, Gone):
                landing()
        self.late = []

    def final_log(self) -> list[tuple[int, str]]:
        """Return the log as a fresh node restores it, without faults, after every lease ran out."""
        self.faults = False
        found: list[tuple[int, str]] = []

        def read(actor: Actor) -> None:
            while True:
                try:
                    restored = actor.activate()
                except CellzError:
                    actor.clock.sleep(TTL_S / 4)
                    continue
                rows = restored.db.conn.execute(
                    "SELECT sequence, id FROM events ORDER BY sequence"
                ).fetchall()
                found.extend(rows)
                restored.db.close()
                return

        reader = Actor(self, "reader", read)
        self.actors = [reader]
        for _ in range(5000):
            self.now += 0.05
            if reader.wakes <= self.now and not reader.finished:
                reader.turn()
            if reader.finished:
                break
        if reader.error is not None:
            raise reader.error
        if not reader.finished:
            reader.kill()
            raise Broken("the cell could not be restored in the end")
        return found

    def check_log(self) -> None:
        """Every acknowledged event is in the log, at its sequence, once; the log has no gap."""
        rows = self.final_log()
        if [sequence for sequence, _ in rows] != list(range(1, len(rows) + 1)):
            raise Broken(f"the log has gaps: {[sequence for sequence, _ in rows]}")
        present = dict(rows)
        for sequence, event_id in self.acked.items():
            if present.get(sequence) != event_id:
                raise Broken(f"acknowledged event {sequence} is lost: the log has {present.get(sequence)}")


class ActorClock(Clock):
    """A node's clocks: its monotonic one starts anywhere, its wall clock is hours off."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._offset = actor.world.random.random() * 1000
        self._skew_s = actor.world.random.choice((-3600, 0, 3600))

    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._actor.world.now + self._skew_s)

    def monotonic(self) -> float:
        return self._actor.world.now + self._offset

    def sleep(self, seconds: float) -> None:
        self._actor.wakes = self._actor.world.now + seconds
        self._actor.rest()


class ActorBlobs:
    """The store as one node reaches it."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._world = actor.world

    def _call(self, work: Callable[[], T], *, writes: bool) -> T:
        world, odds = self._world, self._world.odds
        self._actor.rest()
        dice = world.random.random() if world.faults else 1.0
        if dice < odds.failed:
            raise Unanswered("failed")
        dice -= odds.failed
        if writes and dice < odds.busy:
            raise Busy("409")
        dice -= odds.busy
        if writes and dice < odds.late:
            world.late.append(work)
            raise Unanswered("late")
        dice -= odds.late
        result = work()
        self._actor.rest()
        if dice < odds.lost:
            raise Unanswered("lost")
        return result

    def get(self, key: str) -> Blob | None:
        def read() -> Blob | None:
            found = self._world.objects.get(key)
            return None if found is None else Blob(*found)

        return self._call(read, writes=False)

    def put(self, key: str, data: bytes) -> str:
        return self._call(lambda: self._world.put(key, data), writes=True)

    def create(self, key: str, data: bytes) -> str:
        return self._call(lambda: self._world.create(key, data), writes=True)

    def replace(self, key: str, data: bytes, token: str) -> str:
        return self._call(lambda: self._world.replace(key, data, token), writes=True)

    def delete(self, key: str) -> None:
        self._call(lambda: self._world.objects.pop(key, None), writes=False)

    def copy(self, source: str, target: str) -> None:
        def work() -> None:
            if source not in self._world.objects:
                raise Gone(source)
            self._world.put(target, self._world.objects[source][0])

        self._call(work, writes=True)

    def keys(self, prefix: str) -> Iterator[str]:
        return iter(
            self._call(lambda: sorted(k for k in self._world.objects if k.startswith(prefix)), writes=False)
        )


class Actor:
    """One node: a thread that runs `life`, and dies and comes back as the world decides."""

    def __init__(self, world: World, name: str, life: Callable[[Actor], None]) -> None:
        self.world = world
        self.name = name
        self.wakes = 0.0
        self.finished = False
        self.error: BaseException | None = None
        self.tenure: Tenure | None = None
        self._life = life
        self._go = threading.Semaphore(0)
        self._dead = False
        self._counter = 0
        self._born()

    def _born(self) -> None:
        self._dead = False
        self.clock = ActorClock(self)
        blobs = ActorBlobs(self)
        holder = Holder(blobs, self.clock, Terms(self.name, TTL_S), self.name, self.nonce, self.clock.sleep)
        self.tenure = Tenure(CELL, holder)
        self.publisher = Publisher(blobs, keep=1, nonce=self.nonce, sleep=self.clock.sleep)
        folder = self.world.folder / self.name
        folder.mkdir(exist_ok=True)
        self.restorer = Restorer(
            blobs,
            folder,
            publisher=self.publisher,
            fence=True,
            nonce=self.nonce,
            sleep=self.clock.sleep,
            beside=self.beside,
        )
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def nonce(self) -> str:
        self._counter += 1
        return f"{self.name}-{self._counter}-{self.world.random.getrandbits(32):x}"

    def beside(self, call: Callable[[], T]) -> Callable[[], T]:
        """Make a call as early or as late as real threads might: now, or when its result is wanted."""
        if self.world.random.random() < 0.5:
            return call
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  (raised where the result is wanted)
            return partial(_raise, error)
        return lambda: result

    def holds(self) -> bool:
        return self.tenure is not None and not self._dead and not self.finished and self.tenure.valid()

    def turn(self) -> None:
        """Give this node the baton until it rests."""
        self._go.release()
        self.world.main.acquire()
        if self._dead and not self.finished:
            self._thread.join()
            self._born()

    def rest(self) -> None:
        """Give the baton back; on its return the node may find itself killed or stopped."""
        self.world.main.release()
        self._go.acquire()
        if self._dead:
            raise Killed
        if self.world.faults:
            if self.world.random.random() < self.world.odds.kill:
                self._dead = True
                raise Killed
            if self.world.random.random() < self.world.odds.stop:
                self.wakes = self.world.now + self.world.random.choice((0.5, 1.5, 3.0)) * TTL_S
                self.rest()

    def kill(self) -> None:
        """End the thread for good."""
        if self._thread.is_alive():
            self._dead = True
            self.finished = True
            self._go.release()
            self._thread.join()

    def _main(self) -> None:
        self._go.acquire()
        try:
            if self._dead:
                raise Killed
            self._life(self)
            self.finished = True
        except Killed:
            self.wakes = self.world.now + self.world.random.random() * TTL_S
        except BaseException as error:  # noqa: BLE001  (the world raises it)
            self.error = error
            self.finished = True
        finally:
            self.world.main.release()

    # -- what a node does ---------------------------------------------------------------------------

    def activate(self) -> Restored:
        """Take the lease and bring the cell up; raises CellzError."""
        assert self.tenure is not None
        guess = self.restorer.look_ahead(CELL)
        if self.world.random.random() < 0.2:
            # Another node may have, change and release the cell between the guess and the lease.
            self.clock.sleep(self.world.random.random() * TTL_S)
        epoch = self.tenure.acquire(guess.lease_is_free if guess is not None else None)
        return self.restorer.restore(CELL, epoch, guess)


def _raise(error: Exception) -> NoReturn:
    raise error


def serve(actor: Actor) -> None:
    """A node in commit mode: append, renew, snapshot, trim, put down, take over."""
    while True:
        try:
            restored = actor.activate()
        except CellzError:
            actor.clock.sleep(actor.world.random.random() * TTL_S / 2)
            continue
        try:
            _serve_cell(actor, restored)
            # Nobody wants the cell for a while: its lease is free, and others see it so.
            actor.clock.sleep(actor.world.random.random() * TTL_S)
        except CellzError:
            pass
        finally:
            restored.db.close()


def _serve_cell(actor: Actor, restored: Restored) -> None:
    world, db, tenure = actor.world, restored.db, actor.tenure
    assert tenure is not None
    log = actor.restorer.log(CELL, tenure.standing.epoch)

    def ship(ops: list[Op]) -> int:
        log.write(db.slot + 1, ops)
        return db.slot + 1

    if not db.exists:
        transact(db, [Create(CELL, "{}", "t")], ship)
    for _ in range(world.random.randrange(4, 30)):
        if not tenure.valid():
            tenure.tick()
        event = NewEvent(actor.nonce(), None, "e", "1", "t")
        result = transact(db, [Append((event,))], ship)[0]
        assert isinstance(result, Applied)
        world.ack(result.records[0].sequence, event.id)
        actor.rest()
        tenure.tick()
        if world.random.random() < 0.4:
            db.checkpoint()
            data = Publication(
                CELL, db.path.read_bytes(), db.meta().json(), tenure.standing.epoch, db.slot, db.sequence
            )
            manifest = actor.publisher.publish(data)
            with suppress(Unanswered):
                log.trim(min(each.slot for each in manifest.snapshots))
    tenure.release()


def play(seed: int, folder: Path, *, nodes: int = 3, steps: int = 400, odds: Odds | None = None) -> World:
    """Run one history and check it; return the world. Raises Broken."""
    world = World(seed, folder, odds or Odds())
    world.actors = [Actor(world, f"n{number}", serve) for number in range(nodes)]
    world.run(steps)
    world.check_log()
    return world

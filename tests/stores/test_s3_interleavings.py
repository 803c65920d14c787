"""Writers that meet at every possible request, from seeds: no interleaving breaks what the store promises.

Each request of one writer may be preceded by whole operations of the others, and its answer may be lost. A
writer may be taken for dead and go on all the same. Broken variants of the store prove that the judge sees.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.ports import JournalConflict, Lease, LeaseHeld, LeaseLost, StateError
from fleetctl.stores import s3_objects as objects
from fleetctl.stores import s3_settle
from fleetctl.stores.s3 import S3Store
from fleetctl.stores.s3_bucket import Bucket, Listed, NoAnswer, Place, Refusal, Stored
from fleetctl.stores.s3_journal import S3Journal
from fleetctl.stores.s3_settle import Answer
from tests.stores.conformance import FLEET, TTL_S, HandClock, HandProcesses, holder

PLACE = Place("memory")
SEEDS = range(200)
STEPS = 40
ACTORS = 3
NESTED_MAX = 2


class Broken(AssertionError):
    """The store has broken a promise."""


@dataclass
class World:
    """The objects, and everybody who writes them."""

    dice: random.Random
    clock: HandClock = field(default_factory=HandClock)
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    writes: int = 0
    granted: int = 0
    epochs: set[int] = field(default_factory=set)
    depth: int = 0
    busy: set[int] = field(default_factory=set)
    actors: list[Actor] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def others_act(self) -> None:
        """Whoever is not in the middle of something may do something whole first."""
        if self.depth >= NESTED_MAX or self.dice.random() > 0.25:
            return
        idle = [a for a in self.actors if a.number not in self.busy]
        if idle:
            self.depth += 1
            try:
                self.dice.choice(idle).act()
            finally:
                self.depth -= 1

    def write(self, name: str, data: bytes, token: str | None, *, absent: bool) -> str:
        there = self.objects.get(name)
        if absent and there is not None:
            raise Refusal(Answer.REFUSED)
        if token is not None and there is None:
            raise Refusal(Answer.GONE)
        if token is not None and there is not None and token != str(there[1]):
            raise Refusal(Answer.REFUSED)
        if absent and "/journal/" in name:
            slot = objects.decode_slot(data, name)
            if slot is not None and slot.rows and slot.epoch < self.granted:
                raise Broken(f"epoch {slot.epoch} appended after epoch {self.granted} was granted")
        self.writes += 1
        self.objects[name] = (data, self.writes)
        return str(self.writes)


class MemoryBucket(Bucket):
    """The bucket's one-request calls over the world; settling and trying again are the real ones."""

    def __init__(self, world: World) -> None:
        super().__init__(PLACE, world.clock)
        self._world = world

    def _met(self) -> None:
        self._world.others_act()
        if self._world.dice.random() < 0.03:
            raise NoAnswer("dropped")

    def _lost(self) -> None:
        self._world.others_act()
        if self._world.dice.random() < 0.05:
            raise NoAnswer("lost")

    def _get(self, name: str) -> Stored | None:
        self._met()
        found = self._world.objects.get(name)
        return None if found is None else Stored(found[0], str(found[1]))

    def _put(self, name: str, data: bytes, **condition: str) -> str:
        self._met()
        if condition and self._world.dice.random() < 0.03:
            raise Refusal(Answer.CONFLICT)
        absent = "IfNoneMatch" in condition
        token = self._world.write(name, data, condition.get("IfMatch"), absent=absent)
        self._lost()
        return token

    def _pages(self, prefix: str, after: str) -> Iterator[Listed]:
        self._met()
        for name in sorted(self._world.objects):
            data, token = self._world.objects[name]
            if name.startswith(prefix) and name > after:
                yield Listed(name, str(token), len(data))

    def delete(self, name: str) -> None:
        self._world.objects.pop(name, None)


@dataclass
class Actor:
    """One engine: it may be believed dead and not know."""

    number: int
    world: World
    processes: HandProcesses
    store: S3Store
    pid: int
    lease: Lease | None = None
    count: int = 0

    def act(self) -> None:
        verb = self.world.dice.choice(
            [
                self.acquire,
                self.append,
                self.append,
                self.append,
                self.renew,
                self.release,
                self.die,
                self.compact,
            ]
        )
        self.world.busy.add(self.number)
        # What the store refuses, or cannot tell, is an answer; only a broken promise is a failure.
        with contextlib.suppress(LeaseHeld, LeaseLost, JournalConflict, StateError):
            try:
                verb()
            except StateError as e:
                if e.code in ("state.damaged", "state.inconsistent"):
                    raise Broken(e.message) from e
                raise
            finally:
                self.world.busy.discard(self.number)

    def acquire(self) -> None:
        if self.lease is None:
            who = holder(f"r{self.pid}", pid=self.pid, started=1)
            self.lease = self.store.acquire(FLEET, who, TTL_S)
            # It may be fenced already when it hears of its grant; but no epoch is granted twice.
            if self.lease.epoch in self.world.epochs:
                raise Broken(f"epoch {self.lease.epoch} was granted twice")
            self.world.epochs.add(self.lease.epoch)
            self.world.granted = max(self.world.granted, self.lease.epoch)

    def append(self) -> None:
        if self.lease is None:
            return
        self.count += 1
        text = f"{self.number}/{self.count}"
        head = self.store.head(FLEET)
        body = entries.control("note", "me", text=text)
        context = Context(FLEET, "l1", "r", self.lease.epoch)
        sealed = seal([body], context, head, "2026-01-01T00:00:00.000Z")
        try:
            self.store.append(FLEET, head.sequence, sealed, self.lease.epoch)
        except (JournalConflict, LeaseLost) as e:
            self.world.refused.add(text)
            if isinstance(e, LeaseLost):
                self.lease = None
            raise
        self.world.done.add(text)

    def renew(self) -> None:
        if self.lease is not None:
            try:
                self.lease = self.store.renew(self.lease)
            except LeaseLost:
                # It may have asked too late, and goes on to write once more.
                self.lease = self.lease if self.world.dice.random() < 0.5 else None
                raise

    def release(self) -> None:
        if self.lease is not None:
            lease, self.lease = self.lease, None
            self.store.release(lease)

    def die(self) -> None:
        """The others see no such process any more; what it had begun goes on."""
        self.processes.alive.pop(self.pid, None)
        if self.lease is None:
            self.pid += ACTORS
            self.processes.alive[self.pid] = 1

    def compact(self) -> None:
        if self.lease is not None and self.world.dice.random() < 0.5:
            self.store.check(self.lease)
            self.store.compact(FLEET)


def run(seed: int) -> World:
    """Plays one seed to its end and judges it. Raises Broken."""
    world = World(random.Random(seed))
    processes = HandProcesses()
    processes.alive = dict.fromkeys(range(1, ACTORS + 1), 1)
    for n in range(ACTORS):
        world.actors.append(Actor(n, world, processes, opened(world, processes), n + 1))
    for _ in range(STEPS):
        world.dice.choice(world.actors).act()
    judge(world, processes)
    return world


def opened(world: World, processes: HandProcesses) -> S3Store:
    store = S3Store(PLACE, world.clock, processes)
    bucket = MemoryBucket(world)
    store._bucket, store._journal, store._probed = bucket, S3Journal(bucket, world.clock), True
    return store


def judge(world: World, processes: HandProcesses) -> None:
    quiet = World(random.Random(0), world.clock, world.objects, depth=NESTED_MAX)
    quiet.dice.random = lambda: 0.999  # type: ignore[method-assign] # no faults while judging
    reader = opened(quiet, processes)
    try:
        journal = list(reader.read(FLEET))
    except StateError as e:
        raise Broken(f"the journal cannot be read: {e.message}") from e
    texts = [e["text"] for e in journal]
    if len(set(texts)) != len(texts):
        raise Broken("an append is there twice")
    if world.done - set(texts):
        raise Broken(f"acknowledged and not there: {world.done - set(texts)}")
    if world.refused & set(texts):
        raise Broken(f"refused and there: {world.refused & set(texts)}")
    epochs = [e["epoch"] for e in journal]
    if epochs != sorted(epochs):
        raise Broken(f"an older epoch stands after a newer one: {epochs}")


def test_no_interleaving_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetctl.stores.s3_journal.SEAL_SLOTS_MIN", 3)
    worlds = [run(seed) for seed in SEEDS]
    assert sum(len(w.done) for w in worlds) > len(SEEDS), "little was written: the seeds prove nothing"
    assert sum(w.granted for w in worlds) > len(SEEDS)
    assert sum(len(w.refused) for w in worlds) > 10


def _no_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(S3Journal, "fence", lambda self, fleet, epoch: None)


def _sealed_slots_are_removed(patch: pytest.MonkeyPatch) -> None:
    def empty(self: Any, fleet: str, last: int) -> None:
        for o in self._bucket.listing(objects.slots_name(fleet)):
            if objects.slot_number(o.name) <= last:
                self._bucket.delete(o.name)

    patch.setattr(S3Journal, "_empty", empty)


def _refusal_after_a_lost_answer_is_believed(patch: pytest.MonkeyPatch) -> None:
    table = dict(s3_settle.TABLE)
    table[s3_settle.Next.WRITE, True, Answer.REFUSED] = s3_settle.Next.BEATEN
    table[s3_settle.Next.READ, True, Answer.OURS] = s3_settle.Next.BEATEN
    patch.setattr(s3_settle, "TABLE", table)


def _lost_answer_is_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    table = dict(s3_settle.TABLE)
    table[s3_settle.Next.WRITE, False, Answer.LOST] = s3_settle.Next.WON
    patch.setattr(s3_settle, "TABLE", table)


@pytest.mark.parametrize(
    "variant",
    [
        _no_fence,
        _sealed_slots_are_removed,
        _refusal_after_a_lost_answer_is_believed,
        _lost_answer_is_taken_for_done,
    ],
)
def test_a_broken_variant_is_caught(
    variant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetctl.stores.s3_journal.SEAL_SLOTS_MIN", 3)
    variant(monkeypatch)
    with pytest.raises(Broken):
        for seed in range(5 * len(SEEDS)):
            run(seed)

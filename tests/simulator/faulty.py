"""A world that loses answers, delivers late, and keeps scripts running after their caller died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from executors.driver import Operation, ProbeTarget
from executors.hooks import Hooks
from executors.outcome import Outcome, unknown
from executors.transport import OutcomeLost, TransportError
from manifests.schema.host import Host
from manifests.secret import Secret
from planner.observed import ObservedHost
from planner.plan import StepKind
from tests.engine.world import FakeDriver, Node, World
from tests.simulator.scheduler import SimClock

OWN_DEATH_UNSEEN_S = 4.0
"""A node that died by itself this recently may not have been seen by any sample yet."""


@dataclass(frozen=True)
class Faults:
    """Probabilities of what becomes of one delivery; what is left over arrives and is answered."""

    lost_before: float = 0.0  # never arrives
    lost_after: float = 0.0  # performed, no answer
    late: float = 0.0  # arrives after the caller gave up
    begun: float = 0.0  # begins now, ends later, no answer
    unreachable: float = 0.0
    probe_fails: float = 0.0
    node_dies: float = 0.0  # per look at the world


@dataclass
class FaultyWorld(World):
    """`violations` are broken promises; `epochs` is what was granted, to tell stale effects."""

    rng: Random = field(default_factory=Random)
    clock: SimClock | None = None
    faults: Faults = field(default_factory=Faults)
    floor: int = 0
    checks_epoch: bool = True
    judged: bool = True
    violations: list[str] = field(default_factory=list)
    late: list[tuple[float, Operation]] = field(default_factory=list)
    busy: dict[str, tuple[float, Operation]] = field(default_factory=dict)
    died_s: dict[str, float] = field(default_factory=dict)
    deaths_left: int = 0
    granted: int = 0
    stale_effects: Counter[int] = field(default_factory=Counter)
    performed_ok: list[str] = field(default_factory=list)
    open_operations: Callable[[], set[str]] = set
    reverts: Callable[[], set[str]] = set
    reserve: int = 0
    edge: Callable[[str], None] | None = None
    hooks: Hooks | None = None

    def driver(self, host: Host, substrate: str) -> FaultyDriver:
        return FaultyDriver(self, host.name)

    @property
    def now_s(self) -> float:
        assert self.clock is not None
        return self.clock.at_s

    def move_on(self) -> None:
        """What is due by now happens."""
        for uid, (due_s, operation) in list(self.busy.items()):
            if due_s <= self.now_s:
                del self.busy[uid]
                self.arrive(operation, begun=True)
        for item in list(self.late):
            if item[0] <= self.now_s:
                self.late.remove(item)
                if item[1].uid not in self.busy:
                    self.arrive(item[1])
        if self.deaths_left and self.rng.random() < self.faults.node_dies:
            victims = [n for n in self.nodes.values() if n.running]
            if victims:
                self.deaths_left -= 1
                victim = self.rng.choice(sorted(victims, key=lambda n: n.name))
                victim.running, victim.exited = False, True
                self.died_s[victim.uid] = self.now_s

    def settle_all(self) -> None:
        """Everything that is on its way arrives."""
        for due_s, _ in [*self.late, *self.busy.values()]:
            assert self.clock is not None
            self.clock.at_s = max(self.clock.at_s, due_s)
        self.move_on()

    def arrive(self, operation: Operation, *, begun: bool = False) -> Outcome:
        """A delivery reaches its host: promises are checked on what really happens there.

        One that was `begun` before ends now: it passed the host's checks when it began.
        """
        if not self.judged:
            return FakeDriver(self, operation.spec.host)._guarded(operation)
        node = self.nodes.get(operation.uid)
        before = self.performed.total()
        healthy = node is not None and self.healthy(node)
        known = self._known_available()
        if not self.checks_epoch and node is not None:
            node.epoch = 0
        outcome = FakeDriver(self, operation.spec.host)._guarded(operation)
        if self.performed.total() != before:
            self._judge(operation, outcome, healthy, known, begun=begun)
        return outcome

    def _known_available(self) -> int:
        recent = sum(1 for s in self.died_s.values() if self.now_s - s <= OWN_DEATH_UNSEEN_S)
        return len(self.available()) + recent

    def _judge(
        self, operation: Operation, outcome: Outcome, healthy: bool, known: int, *, begun: bool
    ) -> None:
        if outcome.state.value != "succeeded":
            return
        self.performed_ok.append(operation.operation_id)
        what = f"{operation.effect.value} {operation.node}"
        if operation.epoch < self.granted and not begun:
            # A delivery of a fenced engine that the ledger still holds open is found by its successor's lookup;
            # one that was settled meanwhile must never be performed.
            if operation.operation_id not in self.open_operations():
                self.stale_effects[operation.epoch] += 1
                if self.checks_epoch:
                    self.violations.append(f"stale effect: {what}")
        elif operation.operation_id not in self.open_operations():
            self.violations.append(f"effect without a recorded dispatch: {what}")
        floor = self.reserve if operation.operation_id in self.reverts() else self.floor
        if operation.effect is StepKind.STOP and healthy and known - 1 < floor:
            self.violations.append(f"floor: {known - 1} available, floor {floor}, stopping {operation.node}")


class FaultyDriver(FakeDriver):
    world: FaultyWorld

    def hooks(self) -> Hooks:
        assert self.world.hooks is not None
        return self.world.hooks

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        world = self.world
        if world.before is not None:
            world.before(operation)
        draw, f = world.rng.random(), world.faults
        if operation.uid in world.busy:
            raise OutcomeLost("the node is busy")
        for name in ("unreachable", "lost_before", "lost_after", "late", "begun"):
            share: float = getattr(f, name)
            if draw < share:
                return self._faulty(name, operation)
            draw -= share
        outcome = world.arrive(operation)
        if world.answer is not None:
            return world.answer(operation, outcome)
        return outcome

    def _faulty(self, name: str, operation: Operation) -> Outcome:
        world = self.world
        if name == "unreachable":
            raise TransportError("no route")
        if name == "lost_after":
            world.arrive(operation)
        elif name == "late":
            world.late.append((world.now_s + world.rng.uniform(0.5, 20.0), operation))
        elif name == "begun":
            node = world.nodes.get(operation.uid)
            refused = node is not None and (
                operation.epoch < node.epoch or operation.operation_id in node.barred
            )
            if node is not None and not refused:
                world.busy[operation.uid] = (world.now_s + world.rng.uniform(0.2, 6.0), operation)
        raise OutcomeLost("no answer came")

    def lookup(self, operation: Operation) -> Outcome:
        busy = self.world.busy.get(operation.uid)
        if busy is not None:
            return unknown("fake.begun", "it was begun and has not ended")
        if operation.uid not in self.world.nodes and operation.effect is StepKind.CREATE:
            # Even where nothing is placed, a lookup leaves word that this attempt must not come any more.
            node = self.world.nodes[operation.uid] = Node(
                operation.uid, operation.node, operation.fleet, operation.spec.host,
                operation.lineage, 0, 0, "", "", {}, destroyed=True,
            )  # fmt: skip
            node.barred.add(operation.operation_id)
        return super().lookup(operation)

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        self.world.move_on()
        return super().observe(fleets)

    def probe(self, target: ProbeTarget):  # type: ignore[no-untyped-def]
        return super().probe(target)

"""One seed, one life of a fleet: an upgrade under faults, crashes and rivals, recovered until it is settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from executors.driver import Driver, ProbeTarget
from executors.outcome import Outcome
from fleetctl.engine.apply import Engine, Result, apply
from fleetctl.engine.recover import recover
from fleetctl.ledger.ports import Head, Holder, Lease, LeaseHeld, StateError
from fleetctl.ledger.replay import replay
from fleetctl.stores.memory import MemoryStore
from manifests.errors import ExitCode, FleetctlError
from planner.observed import NodeState, Snapshot
from planner.plan import Plan
from planner.spec import NodeSpec
from tests.engine import plans
from tests.engine.world import fetch, no_secrets
from tests.simulator.faulty import Faults, FaultyWorld
from tests.simulator.hooks import FaultyHooks
from tests.simulator.scheduler import SimClock, SimPool, SimProcesses

ROUNDS_MAX = 60
"""Recoveries after which a seed counts as one that never settles."""


class Crash(BaseException):
    """The engine's process ends here, in the middle of whatever it did."""


class CrashingStore(MemoryStore):
    """A store at whose edges the engine may die, whose disk may be full, and where somebody else may be first."""

    edge: Callable[[str], None] = staticmethod(lambda _: None)

    def append(self, fleet: str, expected: int, entries: Sequence[Mapping[str, Any]], epoch: int) -> Head:
        self.edge("before append")
        head = super().append(fleet, expected, entries, epoch)
        self.operations.extend(e for e in entries if e["kind"] == "operation")
        self.edge("after append")
        return head

    def acquire(self, fleet: str, holder: Holder, ttl_s: float) -> Lease:
        lease = super().acquire(fleet, holder, ttl_s)
        self.granted(lease.epoch)
        return lease

    granted: Callable[[int], None] = staticmethod(lambda _: None)

    @cached_property
    def operations(self) -> list[Mapping[str, Any]]:
        """The entries of operations, in order."""
        return []


@dataclass
class Sim:
    """Everything of one seed. `crash_at`: the number of the edge at which the engine dies (exhaustive runs)."""

    rng: Random
    faults: Faults = field(default_factory=Faults)
    crash_share: float = 0.0
    crashes_left: int = 0
    full_disk_share: float = 0.0
    rivals_left: int = 0
    crash_at: int | None = None
    checks_epoch: bool = True
    edges: int = 0
    latency_s: float = 0.2
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = SimClock(self.rng)
        self.processes = SimProcesses()
        self.store = CrashingStore(self.clock, self.processes)
        self.store.initialise()
        self.store.edge = self._edge
        self.store.granted = self._granted
        self.world = FaultyWorld(rng=self.rng, clock=self.clock, checks_epoch=self.checks_epoch)
        self.world.open_operations = self._open
        self.world.reverts = self._reverts
        self.world.before = lambda operation: self._window()
        self.world.answer = self._answered
        self.world.edge = self._edge
        self.hooks = FaultyHooks(self.world)
        self.world.hooks = self.hooks
        self.pid = 100
        self.rivals = 0
        self.armed = False

    # --- what may go wrong ---------------------------------------------------------------------------

    def _edge(self, what: str) -> None:
        if not self.armed:
            return
        self.edges += 1
        if self.crash_at is not None and self.edges == self.crash_at:
            self.log.append(f"{self.clock.at_s:.1f} crash {what}")
            raise Crash(what)
        if self.crashes_left and self.rng.random() < self.crash_share:
            self.crashes_left -= 1
            self.log.append(f"{self.clock.at_s:.1f} crash {what}")
            raise Crash(what)
        if what == "before append" and self.rng.random() < self.full_disk_share:
            raise StateError("the disk is full", hint="make room")

    def _window(self) -> None:
        """Between the engine's check of its lease and what it does: the place where a fenced one can still act."""
        self._edge("before effect")
        if self.armed and self.rivals_left and self.rng.random() < 0.2:
            self._rival()

    def _answered(self, operation: object, outcome: Outcome) -> Outcome:
        self._edge("after effect")
        return outcome

    def _between(self) -> None:
        self.world.move_on()
        if self.armed and self.rng.random() < 0.02:
            self.clock.skew_s = self.rng.choice((-3600.0, 3600.0, 0.0))
        if self.armed and self.rivals_left and self.rng.random() < 0.03:
            self._rival()

    def _rival(self) -> None:
        """This engine is stopped for long; another one, elsewhere, waits for the TTL and takes over."""
        self.rivals_left -= 1
        self.rivals += 1
        self.log.append(f"{self.clock.at_s:.1f} a rival takes over")
        armed, self.armed = self.armed, False
        faults, self.world.faults = self.world.faults, Faults()
        name, self.processes.name = self.processes.name, f"machine-{self.rivals}"
        try:
            for _ in range(2):
                try:
                    recover(self.engine(), (plans.FLEET,))
                    break
                except LeaseHeld:
                    self.clock.at_s += 31
        finally:
            self.armed, self.world.faults, self.processes.name = armed, faults, name

    def _granted(self, epoch: int) -> None:
        self.world.granted = max(self.world.granted, epoch)

    def _open(self) -> set[str]:
        last = {e["operation_id"]: e["state"] for e in self.store.operations}
        return {operation for operation, state in last.items() if state in ("dispatched", "unknown")}

    def _reverts(self) -> set[str]:
        return {e["operation_id"] for e in self.store.operations if e["step"].startswith("revert:")}

    # --- the engine ----------------------------------------------------------------------------------

    def engine(self) -> Engine:
        self.pid += 1
        self.processes.alive = {self.pid: 1}
        holder = Holder("", "sim", "", self.processes.name, self.processes.name, self.pid, 1)
        return Engine(
            store=self.store,
            drivers=self.world.driver,
            fetch=fetch,
            resolve=no_secrets,
            clock=self.clock,
            holder=holder,
            observe=self._observe,
            hooks=self.hooks,
            pool=lambda: SimPool(self.clock, self.rng, self._between, self.latency_s),
        )

    def _observe(
        self,
        readers: Mapping[tuple[str, str], Driver | FleetctlError],
        fleet: str,
        specs: Mapping[str, NodeSpec],
    ) -> Snapshot:
        hosts = []
        for reader in readers.values():
            assert not isinstance(reader, FleetctlError)
            host = reader.observe(frozenset({fleet}))
            nodes = tuple(
                n.model_copy(
                    update={"health": reader.probe(ProbeTarget(n.uid, specs[n.uid], n.instance)).state}
                )
                if n.uid in specs and n.state is NodeState.RUNNING
                else n
                for n in host.nodes
            )
            hosts.append(host.model_copy(update={"nodes": nodes}))
        return Snapshot(taken_at="2026-01-01T00:00:00.000Z", hosts=tuple(hosts))

    def recorded(self):  # type: ignore[no-untyped-def]
        return replay(plans.FLEET, self.store.read(plans.FLEET)).recorded

    def found(self, nodes: Iterable[str], version: str, **rest: Any) -> None:
        """The fleet as it was before: created without any fault."""
        result = apply(plans.plan(tuple(nodes), version, self.recorded(), **rest), self.engine())
        assert result.exit_code is ExitCode.OK, result.summary
        self.world.performed_ok.clear()

    def live(self, plan: Plan) -> Result:
        """Applies the plan, dying and recovering as the seed says, until its run is settled."""
        self.armed = True
        result: Result | None = None
        work: Callable[[], Result] = lambda: apply(plan, self.engine())  # noqa: E731
        for _ in range(ROUNDS_MAX):
            try:
                result = work()
            except Crash:
                result = None
            except FleetctlError as e:
                self.log.append(f"{self.clock.at_s:.1f} {e.message}")
                result = None
            self.processes.alive = {}
            run = replay(plans.FLEET, self.store.read(plans.FLEET)).runs[-1:]
            if run and run[0].plan_id == plan.plan_id:
                if run[0].result is not None:
                    self.armed = False
                    self.world.settle_all()
                    return Result(ExitCode(run[0].exit_code or 0), run[0].summary)
                work = lambda: recover(self.engine(), (plans.FLEET,))  # noqa: E731
            self.clock.at_s += self.rng.uniform(0.0, 8.0)
            self.world.move_on()
        raise AssertionError(f"never settled: {result}\n" + "\n".join(self.log))

    # --- what must hold ------------------------------------------------------------------------------

    def broken(self) -> list[str]:
        """Every promise that was broken."""
        broken = list(self.world.violations)
        for key, n in self.world.creates.items():
            if n > 1:
                broken.append(f"{n} creates of {key}")
        for epoch, n in self.world.stale_effects.items():
            if n > 1:
                broken.append(f"{n} stale effects of the fenced epoch {epoch}")
        broken += self._lost_intents()
        return broken

    def _lost_intents(self) -> list[str]:
        ledger = replay(plans.FLEET, self.store.read(plans.FLEET))
        intended = {op: (run.run, r.step, r.effect) for run in ledger.runs for op, r in run.attempts.items()}
        lost = [op for op in self.world.performed if op not in intended]
        times = Counter(intended[op] for op in self.world.performed_ok if op in intended)
        lost += [f"{n} times {step}" for step, n in times.items() if n > 1]
        open_ = [r.operation_id for r in ledger.open_run.unsettled] if ledger.open_run else []
        return [f"performed without intent: {op}" for op in lost] + [f"left open: {op}" for op in open_]

"""apply: a finished plan, checked once more, carried out fleet by fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from executors.clock import Clock
from executors.driver import Resolve
from executors.hooks import Hooks
from fleetctl.engine import preconditions, standing
from fleetctl.engine.events import Report
from fleetctl.engine.hands import Drivers, Fetch, Hands, Observe, references
from fleetctl.engine.judging import Judge
from fleetctl.engine.look import through
from fleetctl.engine.loop import Loop
from fleetctl.engine.observer import Observer, Silent
from fleetctl.engine.pool import Pool, ThreadPool
from fleetctl.engine.restore import restore
from fleetctl.engine.rollout import Identity, Rollout, build
from fleetctl.engine.signals import heard
from fleetctl.engine.tenancy import Tenancy
from fleetctl.ledger import entries
from fleetctl.ledger.ports import Head, Holder, Lease, LeaseLost, Store
from fleetctl.ledger.replay import Replayed, Run, replay
from manifests.errors import ExitCode
from planner.plan import FleetPlan, Plan, encode

PARALLELISM = 10


@dataclass(frozen=True)
class Engine:
    """Everything that a run needs from outside. `drivers` makes the driver of a host and substrate, `fetch`
    brings an artifact's verified bytes here, `resolve` a secret's value. `holder` is this process; its run and
    command are filled in. `hooks` runs those that run here. `check` gives the invariants that a plan violates
    (`planner.check.check`), `judge` asks its policies.
    """

    store: Store
    drivers: Drivers
    fetch: Fetch
    resolve: Resolve
    clock: Clock
    holder: Holder
    observer: Observer = field(default_factory=Silent)
    parallelism: int = PARALLELISM
    check: Callable[[Plan], Sequence[str]] | None = None
    judge: Judge | None = None
    observe: Observe | None = None
    hooks: Hooks | None = None
    pool: Callable[[], Pool] | None = None

    def look(self) -> Observe:
        return self.observe or through(self.clock, self.parallelism)

    def make_pool(self) -> Pool:
        return ThreadPool(self.clock, self.parallelism) if self.pool is None else self.pool()


@dataclass(frozen=True, slots=True)
class FleetResult:
    """How one fleet's run ended."""

    fleet: str
    run: str
    result: str
    exit_code: ExitCode
    summary: str


@dataclass(frozen=True, slots=True)
class Result:
    """How it all ended. `exit_code` is that of the first fleet that did not succeed."""

    exit_code: ExitCode
    summary: str
    fleets: tuple[FleetResult, ...] = ()


def apply(plan: Plan, engine: Engine, command: str = "apply", approval: str | None = None) -> Result:
    """Carries a plan out. Nothing is touched unless every precondition of every fleet holds, and every policy.

    `approval` is the id of the approved plan that has the same effects.

    Raises RefusedError (3), StaleError (7), UnknownOutcome (5), LeaseHeld (6), StateError (1) and what
    resolving a secret raises, each before the first effect; UnknownOutcome also when the state is lost on the way.
    """
    check = engine.check
    preconditions.sound(plan, () if check is None else check(plan))
    todo = [f for f in plan.fleets if f.steps]
    if not todo:
        return Result(ExitCode.OK, "nothing to do")
    for fleet in todo:
        preconditions.unused(plan, fleet, _replayed(engine, fleet.fleet))
    _resolvable(engine, todo)
    engine.store.initialise()
    run = engine.clock.new_id()
    with ExitStack() as stack:
        tenancy = acquire(engine, todo, run, command, stack)
        for fleet in todo:
            # Again, now that nobody else can change it.
            preconditions.unused(plan, fleet, _replayed(engine, fleet.fleet))
        hands = hands_for(engine, todo)
        stack.callback(hands.close)
        for fleet in todo:
            preconditions.fresh(fleet, _replayed(engine, fleet.fleet).recorded, hands)
        if engine.judge is not None:
            preconditions.permitted(engine.judge(plan, command, approved=approval is not None))
        return carry_out(plan, todo, engine, hands, tenancy, run, command, approval=approval)


def carry_out(
    plan: Plan,
    todo: Sequence[FleetPlan],
    engine: Engine,
    hands: Hands,
    tenancy: Tenancy,
    run: str,
    command: str,
    open_runs: Mapping[str, Run] | None = None,
    approval: str | None = None,
) -> Result:
    """Runs the fleets in order, under leases that are held; stops at the first that does not succeed.

    `open_runs` are those that were cut off and are taken up again.
    """
    document = engine.store.put(encode(plan))
    done: list[FleetResult] = []
    for fleet in todo:
        resumed = (open_runs or {}).get(fleet.fleet)
        told = _started(engine, plan, document, command, approval, resumed=resumed is not None)
        result = _run(plan, fleet, told, engine, hands, tenancy, resumed, run)
        tenancy.end(fleet.fleet)
        done.append(result)
        if result.exit_code is not ExitCode.OK:
            break
    last = done[-1]
    if len(todo) == 1:
        return Result(last.exit_code, last.summary, tuple(done))
    summary = "; ".join(f"fleet {r.fleet}: {r.summary}" for r in done)
    if len(done) < len(todo):
        summary += f"; not begun: {', '.join(f.fleet for f in todo[len(done) :])}"
    return Result(last.exit_code, summary, tuple(done))


def _started(
    engine: Engine, plan: Plan, document: str, command: str, approval: str | None, *, resumed: bool
) -> entries.Body:
    return entries.run_started(
        plan_id=plan.plan_id,
        document=document,
        command=command,
        who=engine.holder.who,
        resumed=resumed,
        approval=approval,
    )


def _run(
    plan: Plan,
    fleet: FleetPlan,
    started: entries.Body,
    engine: Engine,
    hands: Hands,
    tenancy: Tenancy,
    resumed: Run | None,
    run: str,
) -> FleetResult:
    rollout, _ = resumed_rollout(engine, plan, fleet, tenancy.of(fleet.fleet), resumed, run)
    pool = engine.make_pool()
    identity = rollout.identity
    with heard(pool, engine.clock):
        try:
            loop = Loop(rollout, engine.store, tenancy, hands, pool, engine.clock, engine.observer)
            try:
                loop.append((started,))
            except LeaseLost as e:
                return FleetResult(fleet.fleet, identity.run, "fenced", ExitCode.LOCKED, e.message)
            facts = {"run": identity.run, "command": started["command"], "resumed": resumed is not None}
            facts["done"] = standing.done(rollout)
            engine.observer.on_report(fleet.fleet, Report("run", None, f"run {identity.run}", facts=facts))
            finish = loop.run()
        finally:
            pool.close()
    ended = {"run": identity.run, "result": finish.result, "exit_code": int(finish.exit_code)}
    engine.observer.on_report(fleet.fleet, Report("finished", None, finish.summary, facts=ended))
    return FleetResult(fleet.fleet, identity.run, finish.result, finish.exit_code, finish.summary)


def resumed_rollout(
    engine: Engine, plan: Plan, fleet: FleetPlan, lease: Lease, resumed: Run | None, run: str = ""
) -> tuple[Rollout, Head]:
    """The rollout of a fleet's plan where its journal says it is, and the end of that journal.

    `resumed` is the open run that is taken up; None begins a new one, named `run`.
    """
    replayed = _replayed(engine, fleet.fleet)
    recorded = replayed.recorded
    if resumed is not None and replayed.open_run is not None:
        resumed = replayed.open_run
    identity = Identity(
        plan_id=plan.plan_id,
        fleet=fleet.fleet,
        lineage=recorded.lineage or engine.clock.new_id(),
        run=run if resumed is None else resumed.run,
        epoch=lease.epoch,
        who=engine.holder.who,
    )
    rollout = build(
        identity,
        fleet,
        recorded.nodes,
        recorded.nodes if resumed is None else resumed.baseline,
        keyed_digests(engine, [fleet]),
    )
    if resumed is not None:
        restore(rollout, resumed)
    return rollout, engine.store.head(fleet.fleet)


def acquire(engine: Engine, todo: Sequence[FleetPlan], run: str, command: str, stack: ExitStack) -> Tenancy:
    """All leases or none: the first one that is held gives back the others."""
    holder = replace(engine.holder, run=run, command=command)
    tenancy = Tenancy(engine.store, engine.clock)
    stack.callback(tenancy.give_back)
    for fleet in todo:
        tenancy.acquire(fleet.fleet, holder)
    return tenancy


def hands_for(engine: Engine, todo: Sequence[FleetPlan]) -> Hands:
    hosts = {name: host for fleet in todo for name, host in fleet.hosts.items()}
    return Hands(
        hosts=hosts,
        drivers=engine.drivers,
        fetch=engine.fetch,
        resolve=engine.resolve,
        observe=engine.look(),
        clock=engine.clock,
        leases=engine.store,
        hooks=engine.hooks,
    )


def _resolvable(engine: Engine, todo: Sequence[FleetPlan]) -> None:
    """Every secret resolves now: better known before a node is stopped than after."""
    for ref in _references(todo):
        engine.resolve(ref)


def keyed_digests(engine: Engine, todo: Sequence[FleetPlan]) -> dict[str, str]:
    """The keyed digest of every secret that the plans refer to."""
    key = engine.store.secrets_key()
    assert key is not None, "an initialised state has a key"
    return {ref: engine.resolve(ref).keyed_digest(key) for ref in _references(todo)}


def _references(todo: Sequence[FleetPlan]) -> list[str]:
    return sorted({ref for fleet in todo for spec in fleet.specs.values() for ref in references(spec)})


def _replayed(engine: Engine, fleet: str) -> Replayed:
    return replay(fleet, engine.store.read(fleet))

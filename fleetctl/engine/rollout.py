"""A rollout as the engine sees it: steps and nodes with their state, and the counters that decide.

It is changed in place by `decide` and by nothing else: a copy per event would make the cost of a step
grow with the fleet. Every counter here is kept up to date by one method, so that no decision has to count.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from executors.driver import Operation
from executors.hooks import HookCall
from fleetctl.ledger.operations import Record
from manifests.errors import ExitCode
from planner.change import Action
from planner.observed import ObservedNode
from planner.plan import Budget, FleetPlan, Step
from planner.recorded import RecordedNode
from planner.spec import NodeSpec
from planner.spread import Spread, spreads

FLEET = "fleet"
LOOKS_EACH_MAX = 256
"""Up to this many nodes, each node that is begun gets a look of its own at all others; a look at more costs more
than a node, so there the age of the last one decides."""


class Status(StrEnum):
    """Where a step is. UNSETTLED: its outcome is open and the lookups are used up."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNSETTLED = "unsettled"


SETTLED = frozenset({Status.DONE, Status.FAILED, Status.SKIPPED})


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose rollout it is: what every operation and entry carries."""

    plan_id: str
    fleet: str
    lineage: str
    run: str
    epoch: int
    who: str = ""


@dataclass(slots=True)
class StepState:
    """One step under way. `key` names it in the journal: its id, or `revert:N`.

    For verify: `serial` counts probes, `passed` those in a row, `passed_s` when they were enough.
    """

    key: str
    order: int
    step: Step
    spec: NodeSpec | None
    node: NodeState | None
    waits: int = 0
    dependents: list[StepState] = field(default_factory=list)
    status: Status = Status.WAITING
    attempt: int = 1
    record: Record | None = None
    asked: Operation | HookCall | None = None
    lookups: int = 0
    begun_s: float = 0.0
    deadline_s: float = 0.0
    serial: int = 0
    passed: int = 0
    passed_s: float | None = None
    last_answer: str = ""
    error: str = ""


@dataclass(slots=True)
class NodeState:
    """One node of the fleet. `generation` and `spec` are what is placed, `before` what it was last healthy with.

    `counts`: it is one of those that the budgets are about; one that is to go is not. `under_way`: steps of it were begun and it is not done. `disrupted`: we took it down, and it is not back. `domains`
    are its failure domains, each with how many nodes of it may be down. `version_before`: what it ran when the plan
    was made. `withdrawn`: it was told to serve no more, by a hook or
    its drain, and has not been started since; `drained`: its drain agreed. `withdrawn_at`: when, in an earlier run.
    """

    uid: str
    name: str
    group: str
    host: str
    generation: int = 0
    spec: NodeSpec | None = None
    before: NodeSpec | None = None
    action: Action = Action.NOOP
    counts: bool = False
    drifted: bool = False
    steps: list[StepState] = field(default_factory=list)
    observed: ObservedNode | None = None
    unseen: bool = True
    instance: str | None = None
    running: bool = False
    available: bool = False
    fact_s: float = float("-inf")
    touched: bool = False
    under_way: bool = False
    disrupted: bool = False
    healthy: bool = False
    gone: bool = False
    failed: str = ""
    domains: tuple[tuple[str, int], ...] = ()
    version_before: str = ""
    withdrawn: bool = False
    drained: bool = False
    withdrawn_at: str | None = None

    def serves_again(self) -> None:
        """It was started, so that nothing it was told before counts."""
        self.withdrawn, self.drained, self.withdrawn_at = False, False, None


@dataclass(slots=True)
class Scope:
    """A budget and how many nodes under it are available now."""

    budget: Budget
    available: int = 0


@dataclass(frozen=True, slots=True)
class Halt:
    """Why nothing new is begun any more."""

    result: str
    exit_code: ExitCode
    reason: str


@dataclass(slots=True)
class Rollout:
    """One fleet's plan being carried out. `begin` holds steps that begin a node or take one down, in plan order;
    `go_on` those that continue what was begun; `running` what somebody performs right now.
    """

    identity: Identity
    plan: FleetPlan
    keyed: Mapping[str, str]
    steps: dict[str, StepState] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    down_in: dict[str, int] = field(default_factory=dict)
    phase: int = 0
    phases: list[int] = field(default_factory=list)
    pending: dict[int, int] = field(default_factory=dict)
    parked: dict[int, list[StepState]] = field(default_factory=dict)
    phase_failed: str = ""
    begin: list[tuple[int, str]] = field(default_factory=list)
    go_on: deque[StepState] = field(default_factory=deque)
    running: dict[str, StepState] = field(default_factory=dict)
    unsettled: dict[str, StepState] = field(default_factory=dict)
    disrupted: int = 0
    under_way: int = 0
    operations: int = 0
    failures: int = 0
    halt: Halt | None = None
    interrupted: ExitCode | None = None
    paused: str = ""
    promoted: bool = False
    waits_for_promotion: bool = False
    hold_until_s: float | None = None
    reverting: bool = False
    reverts: int = 0
    revert_failed: bool = False
    gave_up: bool = False
    told: str = ""
    finished: bool = False
    examined: int = 0
    examining: int = 0
    shown: tuple[object, ...] = ()
    progress_s: float = 0.0
    now_s: float = 0.0
    sampled_s: float = float("-inf")
    looked_s: float = float("-inf")
    sample_after_s: float = float("-inf")
    look_after_s: float = float("-inf")
    sampling: bool = False
    sample_at_s: float | None = None
    blocked: str = ""
    blocked_since_s: float = 0.0
    dirty: bool = True
    timers: list[tuple[float, int, str, str, int]] = field(default_factory=list)
    ticket: int = 0
    spreads: tuple[Spread, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.spreads = spreads(self.plan.rollout)

    @property
    def may_begin(self) -> bool:
        """Whether new nodes may be begun: forward until something halts it, backward until that is given up."""
        if self.interrupted is not None or self.gave_up or self.paused:
            return False
        return self.halt is None or self.reverting

    def set_available(self, node: NodeState, available: bool, fact_s: float) -> None:
        """The one place where availability changes; older facts than the last one are passed over."""
        if fact_s < node.fact_s:
            return
        node.fact_s = fact_s
        if node.available == available:
            return
        node.available = available
        change = 1 if available else -1
        self._count_down(node, -change)
        if node.counts:
            for name in (FLEET, f"group/{node.group}"):
                scope = self.scopes.get(name)
                if scope is not None:
                    scope.available += change

    def add_node(self, node: NodeState) -> None:
        """Takes a node into account; nodes are unavailable until a fact says otherwise."""
        self.nodes[node.uid] = node
        labels = {} if node.spec is None else node.spec.labels
        planned = self.plan.specs.get(node.name)
        if planned is not None and node.action is not Action.DESTROY:
            labels = planned.labels
        domains = ((spread.domain(node.host, labels), spread.limit) for spread in self.spreads)
        node.domains = tuple((domain, limit) for domain, limit in domains if domain is not None)
        if not node.gone:
            self._count_down(node, 1)

    def remove_node(self, node: NodeState, now_s: float) -> None:
        """A destroyed node counts nowhere any more."""
        self.set_available(node, False, now_s)
        node.gone = True
        self._count_down(node, -1)

    def _count_down(self, node: NodeState, change: int) -> None:
        for domain, _ in node.domains:
            self.down_in[domain] = self.down_in.get(domain, 0) + change

    def disrupt(self, node: NodeState, now_s: float) -> None:
        """We take it down ourselves, and know it before any sample does."""
        self.set_available(node, False, now_s)
        if not node.disrupted:
            node.disrupted = True
            self.disrupted += 1

    def enter(self, node: NodeState) -> None:
        """A first step of the node begins."""
        if not node.under_way:
            node.under_way = True
            self.under_way += 1

    def leave(self, node: NodeState) -> None:
        """No step of the node is left, or none will be done; from here on samples say how it is."""
        if node.under_way:
            node.under_way = False
            self.under_way -= 1
        if node.disrupted:
            node.disrupted = False
            self.disrupted -= 1
        self.dirty = True
        if len(self.nodes) <= LOOKS_EACH_MAX:
            self.look_after_s = self.now_s

    def undo(self, state: StepState, now_s: float) -> None:
        """The step that was to take its node down, or to begin it, provably did not: only a fresh look knows how it is."""
        node = state.node
        assert node is not None
        self.running.pop(state.key, None)
        state.status = Status.WAITING
        if not any(s.status is Status.DONE for s in node.steps):
            node.touched = False
        node.fact_s = now_s
        self.sample_after_s = now_s
        self.leave(node)
        heapq.heappush(self.begin, (state.order, state.key))

    def timer(self, at_s: float, kind: str, key: str, serial: int = 0) -> None:
        """Calls `decide` back at that time."""
        self.ticket += 1
        heapq.heappush(self.timers, (at_s, self.ticket, kind, key, serial))

    def enqueue(self, state: StepState) -> None:
        """A step whose predecessors are done waits for its phase, for a slot, or goes on at once."""
        if state.step.phase > self.phase:
            self.parked.setdefault(state.step.phase, []).append(state)
        elif state.node is None or (state.node.under_way and not takes_down(state)):
            self.go_on.append(state)
        else:
            heapq.heappush(self.begin, (state.order, state.key))
            self.dirty = True


def takes_down(state: StepState) -> bool:
    """Whether this step would newly take its node down."""
    return state.step.disrupts and state.node is not None and not state.node.disrupted


def specification(plan: FleetPlan, step: Step, recorded: RecordedNode | None) -> NodeSpec | None:
    """What a step works with: what the plan names, else what is recorded, else what the plan wants of the node."""
    if step.spec is not None:
        return plan.specs[step.spec]
    if recorded is not None and recorded.spec is not None:
        return recorded.spec
    return None if step.node is None else plan.specs.get(step.node)


def build(
    identity: Identity,
    plan: FleetPlan,
    recorded: Mapping[str, RecordedNode],
    baseline: Mapping[str, RecordedNode],
    keyed: Mapping[str, str],
) -> Rollout:
    """The rollout of a plan at its beginning.

    `recorded` are the fleet's nodes by uid as they are recorded now, `baseline` as they were when the run
    began (the same, unless it is being recovered); `keyed` maps secret references to keyed digests.
    """
    rollout = Rollout(identity, plan, keyed)
    rollout.scopes = {b.scope: Scope(b) for b in plan.budgets}
    for change in plan.changes:
        known = recorded.get(change.uid)
        before = baseline.get(change.uid)
        rollout.add_node(
            NodeState(
                uid=change.uid,
                name=change.node,
                group=change.group,
                host=change.host,
                generation=0 if known is None else known.generation,
                spec=None if known is None else known.spec,
                before=None if before is None else before.last_healthy,
                action=change.action,
                counts=change.action is not Action.DESTROY,
                drifted=change.drift,
                gone=known is not None and known.destroyed,
                version_before="" if change.before is None else change.before.version,
                withdrawn=known is not None and known.withdrawn_at is not None,
                drained=known is not None and known.drained,
                withdrawn_at=None if known is None else known.withdrawn_at,
            )
        )
    for uid, known in recorded.items():
        if uid not in rollout.nodes and not known.destroyed:
            rollout.add_node(
                NodeState(
                    uid=uid,
                    name=known.name,
                    group=known.group,
                    host=known.host,
                    generation=known.generation,
                    spec=known.spec,
                    before=known.last_healthy,
                    withdrawn=known.withdrawn_at is not None,
                    drained=known.drained,
                    withdrawn_at=known.withdrawn_at,
                )
            )
    for step in plan.steps:
        add_step(rollout, str(step.id), step, specification(plan, step, recorded.get(step.uid or "")))
    for step in plan.steps:
        for before_id in step.after:
            link(rollout, str(before_id), str(step.id))
    rollout.phases = sorted(rollout.pending)
    rollout.phase = rollout.phases[0] if rollout.phases else 0
    return rollout


def add_step(rollout: Rollout, key: str, step: Step, spec: NodeSpec | None) -> StepState:
    """Takes a step into the rollout, in the order of the calls."""
    node = None if step.uid is None else rollout.nodes.get(step.uid)
    state = StepState(key, len(rollout.steps), step, spec, node)
    rollout.steps[key] = state
    rollout.pending[step.phase] = rollout.pending.get(step.phase, 0) + 1
    if node is not None:
        node.steps.append(state)
    return state


def link(rollout: Rollout, before: str, after: str) -> None:
    """`after` waits for `before`."""
    rollout.steps[before].dependents.append(rollout.steps[after])
    rollout.steps[after].waits += 1

"""A plan as rows for views: what is lost first, then what serves now and is touched, then the rest, and the sums.

Rows hold names, numbers and the plan's own nouns, no sentences, colours or layout: the terminal, Markdown,
GitHub's annotations and SARIF all draw these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from planner.change import Action, Change, Reason
from planner.hooks import told
from planner.plan import Budget, FleetPlan, Plan, Refusal, StepKind, Verdict
from planner.spec import NodeSpec

# A replaced node keeps its identity, so it counts as changed; only what ends for good counts as destroyed.
_COUNTED = {
    Action.DESTROY: "destroy",
    Action.REPLACE: "change",
    Action.RESTART: "change",
    Action.RELOAD: "change",
    Action.STOP: "change",
    Action.ADOPT: "adopt",
    Action.CREATE: "add",
}
_WEIGHT = list(_COUNTED)
_VOLUME = "domain.volumes."
_PLACED_ONLY = frozenset({Action.CREATE, Action.DESTROY, Action.NOOP, Action.ADOPT})


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The very same change of one node or of several of a group; `nodes` and their `hosts` in the same order.

    `before` and `after` are versions. `available`: the nodes serve now. `data_lost`: their data goes with them,
    `losses` what goes for good beside it.
    """

    action: Action
    group: str
    nodes: tuple[str, ...]
    hosts: tuple[str, ...]
    before: str | None
    after: str | None
    reasons: tuple[Reason, ...]
    available: bool
    data_lost: bool
    losses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LossRow:
    """What is lost for good. `kind`: nodes that are destroyed (`node`), with their data (`data`), containers whose
    image's own volumes go (`anonymous-volumes`), volumes that are not attached any more (`volume`, named by `what`), or
    what a substrate keeps with a node beside its data (`kept`, in the words of `what`).
    """

    kind: Literal["node", "data", "anonymous-volumes", "volume", "kept"]
    group: str
    nodes: tuple[str, ...]
    what: str | None = None


@dataclass(frozen=True, slots=True)
class FleetRows:
    """One fleet: what is lost, its changes in order of weight, the verdicts and the order, the proof, and what forbids it.

    `strategy` is `none` where nothing may or need be done. `window`: nodes that may be down at once while it
    rolls, None where nothing rolls. `calls` are the hooks and drains, in words. `phases` are the nodes in the order in which they are touched, none for
    a single phase. `proven`: there are steps, and the budgets' minima are what they lead to. `no_return` are the
    transitions whose way back is closed, `no_return_at` the first node whose start cannot be undone.
    """

    fleet: str
    strategy: Literal["rolling", "full", "none"]
    window: int | None
    downtime_accepted: bool
    losses: tuple[LossRow, ...]
    changes: tuple[ChangeRow, ...]
    unchanged: int
    drifted: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    calls: tuple[str, ...]
    phases: tuple[tuple[str, ...], ...]
    proven: bool
    budgets: tuple[Budget, ...]
    no_return: tuple[Verdict, ...]
    no_return_at: str | None
    warnings: tuple[str, ...]
    refusals: tuple[Refusal, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do, and nothing that forbids it."""
        return not self.proven and not self.refusals


@dataclass(frozen=True, slots=True)
class Sums:
    """How many nodes a plan adds, changes, destroys, takes over."""

    add: int
    change: int
    destroy: int
    adopt: int

    def __str__(self) -> str:
        over = f"{self.adopt} to take over, " if self.adopt else ""
        return f"{over}{self.add} to add, {self.change} to change, {self.destroy} to destroy"


def sums(plan: Plan) -> Sums:
    """The sums of all fleets."""
    found = Counter(_COUNTED.get(c.action) for f in plan.fleets for c in f.changes)
    return Sums(found["add"], found["change"], found["destroy"], found["adopt"])


def rows(plan: Plan) -> tuple[FleetRows, ...]:
    """Every fleet's rows, in the order in which the fleets are carried out."""
    return tuple(fleet_rows(f) for f in plan.fleets)


def fleet_rows(plan: FleetPlan) -> FleetRows:
    """One fleet's rows."""
    strategy = plan.rollout.strategy if plan.steps else "none"
    rolls = strategy == "rolling" and any(c.action not in _PLACED_ONLY for c in plan.changes)
    changes = _changes(plan)
    return FleetRows(
        fleet=plan.fleet,
        strategy=strategy,
        window=plan.rollout.window if rolls else None,
        downtime_accepted=plan.rollout.accept_downtime,
        losses=tuple(_losses(plan, changes)),
        changes=changes,
        unchanged=sum(c.action is Action.NOOP for c in plan.changes),
        drifted=tuple(c.node for c in plan.changes if c.drift),
        verdicts=plan.verdicts,
        calls=tuple(told(plan)),
        phases=_phases(plan),
        proven=bool(plan.steps),
        budgets=plan.budgets,
        no_return=tuple(
            v
            for v in plan.verdicts
            if v.reverse == "never" and not v.together and v.mode in ("rolling", "full")
        ),
        no_return_at=None if plan.no_return is None else plan.steps[plan.no_return].node,
        warnings=plan.warnings,
        refusals=plan.refusals,
    )


def one_by_one(row: ChangeRow) -> tuple[ChangeRow, ...]:
    """The row as one row for each of its nodes."""
    return tuple(
        replace(row, nodes=(node,), hosts=(host,)) for node, host in zip(row.nodes, row.hosts, strict=True)
    )


def _changes(plan: FleetPlan) -> tuple[ChangeRow, ...]:
    """Changes that differ in nothing but the node stand together; in the order of their weight."""
    groups: dict[object, list[Change]] = {}
    for c in plan.changes:
        if c.action is not Action.NOOP:
            key = (c.action, c.group, c.reasons, c.before, c.after, c.available, c.data_lost, c.losses)
            groups.setdefault(key, []).append(c)
    found = [_row(alike) for alike in groups.values()]
    return tuple(sorted(found, key=lambda r: (_WEIGHT.index(r.action), not r.available)))


def _row(alike: list[Change]) -> ChangeRow:
    c = alike[0]
    return ChangeRow(
        action=c.action,
        group=c.group,
        nodes=tuple(a.node for a in alike),
        hosts=tuple(a.host for a in alike),
        before=c.before.version if c.before else None,
        after=c.after.version if c.after else None,
        reasons=c.reasons,
        available=c.available,
        data_lost=c.data_lost,
        losses=c.losses,
    )


def _losses(plan: FleetPlan, changes: tuple[ChangeRow, ...]) -> Iterator[LossRow]:
    for row in changes:
        for what in row.losses:
            yield LossRow("kept", row.group, row.nodes, what)
        if row.action is Action.DESTROY:
            yield LossRow("data" if row.data_lost else "node", row.group, row.nodes)
            continue
        for reason in row.reasons:
            if reason.field.startswith(_VOLUME) and reason.after is None:
                yield LossRow("volume", row.group, row.nodes, reason.field.removeprefix(_VOLUME))
        if row.action in (Action.REPLACE, Action.RESTART):
            bare = tuple(n for n in row.nodes if _loses_anonymous_volumes(plan.specs.get(n)))
            if bare:
                yield LossRow("anonymous-volumes", row.group, bare)


def _loses_anonymous_volumes(spec: NodeSpec | None) -> bool:
    return spec is not None and spec.container is not None and spec.container.lose_anonymous_volumes


def _phases(plan: FleetPlan) -> tuple[tuple[str, ...], ...]:
    """The nodes by phase, once more than one phase touches nodes."""
    phases: dict[int, dict[str, None]] = {}
    for step in plan.steps:
        if step.node is not None and step.kind is not StepKind.STAGE:
            phases.setdefault(step.phase, {})[step.node] = None
    return tuple(tuple(nodes) for _, nodes in sorted(phases.items())) if len(phases) > 1 else ()

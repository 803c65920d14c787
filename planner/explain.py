"""A plan as rows for views: what is lost first, then what serves now and is touched, then the rest, and the sums.

Rows hold words and numbers, no colours and no layout; the terminal, Markdown and pull requests draw them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from planner.change import Action, Change, Reason
from planner.plan import Budget, FleetPlan, Plan

# A replaced node keeps its identity, so it counts as changed; only what ends for good counts as destroyed.
_COUNTED = {
    Action.CREATE: "add",
    Action.REPLACE: "change",
    Action.RESTART: "change",
    Action.RELOAD: "change",
    Action.STOP: "change",
    Action.ADOPT: "adopt",
    Action.DESTROY: "destroy",
}
_WEIGHT = list(reversed(_COUNTED))
_WORDS = {
    "new": "it was never there",
    "gone": "it is not there any more",
    "unreachable": "its host does not answer",
    "destroy": "the fleet is to be destroyed",
    "not-declared": "no manifest declares it any more",
    "downgrade": "a downgrade",
    "same-precedence": "the same precedence: only build metadata differs",
    "rebuild": "the same version with other bytes",
    "lineage": "it belongs to another lineage",
    "cordoned": "its host is cordoned",
    "drain": "its host is drained",
}


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """One reason: words, and the values before and after where it has them."""

    words: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One node's change. `available`: it serves now; `losses`: what goes for good beside its data."""

    action: Action
    address: str
    host: str
    heading: str
    reasons: tuple[ReasonRow, ...]
    available: bool
    drift: bool
    data_lost: bool
    losses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetRows:
    """One fleet: its changes in order of weight, what it says of availability, and what it cannot undo.

    `no_return_at` is the first node whose start cannot be undone.
    """

    fleet: str
    changes: tuple[ChangeRow, ...]
    availability: tuple[str, ...]
    no_return: tuple[str, ...]
    no_return_at: str | None


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
    return tuple(_fleet(f) for f in plan.fleets)


def _fleet(plan: FleetPlan) -> FleetRows:
    changes = [c for c in plan.changes if c.action is not Action.NOOP]
    changes.sort(key=lambda c: (_WEIGHT.index(c.action), not c.available))
    return FleetRows(
        plan.fleet,
        tuple(_change(plan.fleet, c) for c in changes),
        tuple(availability(plan, b) for b in plan.budgets) if plan.steps else (),
        tuple(
            f"{v.product} {v.from_} -> {v.to}"
            for v in plan.verdicts
            if v.reverse == "never" and not v.together and v.mode in ("rolling", "full")
        ),
        None if plan.no_return is None else f"node/{plan.fleet}/{plan.steps[plan.no_return].node}",
    )


def lost(plan: Plan) -> tuple[str, ...]:
    """What nobody can bring back afterwards, by node: `node/hello/web-9: its data, 1 snapshot (before)`."""
    return tuple(
        f"node/{f.fleet}/{c.node}: {', '.join([*(('its data',) if c.data_lost else ()), *c.losses])}"
        for f in plan.fleets
        for c in f.changes
        if c.data_lost or c.losses
    )


def availability(plan: FleetPlan, budget: Budget) -> str:
    """`Availability: never below 2 of 3 (floor 2, reserve 1).`"""
    scope = "" if budget.scope == "fleet" else f" of {budget.scope}"
    floor = "downtime accepted" if plan.rollout.strategy == "full" else f"floor {budget.floor}"
    return f"Availability: never below {budget.minimum} of {budget.count}{scope} ({floor}, reserve {budget.reserve})."


def _change(fleet: str, change: Change) -> ChangeRow:
    return ChangeRow(
        change.action,
        f"node/{fleet}/{change.node}",
        change.host,
        _heading(change),
        tuple(_reason(r) for r in change.reasons),
        change.available,
        change.drift,
        change.data_lost,
        change.losses,
    )


def _heading(change: Change) -> str:
    before = change.before.version if change.before else None
    after = change.after.version if change.after else None
    match change.action:
        case Action.CREATE:
            return f"will be created with {after}"
        case Action.REPLACE if before != after:
            return f"will be replaced: {before} -> {after}"
        case Action.REPLACE:
            return "will be replaced"
        case Action.RESTART:
            return "will be restarted"
        case Action.RELOAD:
            return "will be told to reload"
        case Action.ADOPT:
            return "will be taken over"
        case Action.STOP:
            return "will be stopped"
        case _:
            return "will be destroyed" + (", and its data with it" if change.data_lost else "")


def _reason(reason: Reason) -> ReasonRow:
    return ReasonRow(_WORDS.get(reason.code) or reason.field or reason.code, reason.before, reason.after)

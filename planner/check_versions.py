"""The compatibility part of the proof: no version meets another unless the plan's own verdicts join them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

from planner.plan import FleetPlan


def versions(plan: FleetPlan) -> list[str]:
    """Transitions and meetings of versions that the verdicts of the plan do not allow."""
    touched = [c for c in plan.changes if c.action not in ("no-op", "adopt") and c.after is not None]
    if not touched:
        return []
    modes = {(v.from_, v.to): v.mode for v in plan.verdicts}
    return _transitions(plan, modes) + _meetings(plan, modes) + _no_return(plan)


def _transitions(plan: FleetPlan, modes: Mapping[tuple[str, str], str]) -> list[str]:
    allowed = ("rolling", "full", "unknown") if plan.rollout.strategy == "full" else ("rolling",)
    moves = {
        (c.before.version, c.after.version)
        for c in plan.changes
        if c.before is not None and c.after is not None and c.before.version != c.after.version
    }
    return [
        f"nodes go from {old} to {new}, and the verdict is {modes.get((old, new))}"
        for old, new in sorted(moves)
        if modes.get((old, new)) not in allowed
    ]


def _no_return(plan: FleetPlan) -> list[str]:
    """That the plan shows the first start on a version from which its own verdicts open no way back."""
    back = {(v.from_, v.to): v.reverse for v in plan.verdicts if not v.together}
    held = {
        c.uid
        for c in plan.changes
        if c.before is not None
        and c.after is not None
        and back.get((c.before.version, c.after.version)) == "never"
    }
    first = next((s.id for s in plan.steps if s.kind == "start" and s.uid in held), None)
    if first == plan.no_return:
        return []
    return [f"the point of no return is step {first}, and the plan says {plan.no_return}"]


def _meetings(plan: FleetPlan, modes: Mapping[tuple[str, str], str]) -> list[str]:
    """Twos that can be live on two nodes at one moment. In a full plan what stops meets nothing that is new."""
    stopped = {s.uid for s in plan.steps if s.kind == "stop"} if plan.rollout.strategy == "full" else set()
    joined = {frozenset(pair) for pair, mode in modes.items() if mode == "rolling"}
    holders: dict[str, set[str]] = defaultdict(set)
    now = set()
    moving = False
    for change in plan.changes:
        before, after = change.before, change.after
        if before is not None and change.live:
            now.add(before.version)
            if change.uid not in stopped:
                holders[before.version].add(change.uid)
        if after is not None and change.action not in ("no-op", "adopt"):
            holders[after.version].add(change.uid)
            moving = moving or before is None or before.version != after.version
    return [
        f"{one} and {other} may be live together, and no rolling verdict joins them"
        for one, other in combinations(sorted(holders), 2)
        if (moving or not {one, other} <= now)
        and len(holders[one] | holders[other]) > 1
        and frozenset((one, other)) not in joined
    ]

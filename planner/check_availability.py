"""The budget's part of the proof: who is available at worst, around every step, in every scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from planner.change import Change
from planner.plan import Budget, FleetPlan, Step

FLEET = "fleet"


def availability(plan: FleetPlan, steps: Mapping[str, Sequence[Step]]) -> list[str]:
    """The violations of budgets and of the numbers beside each step.

    A phase is a barrier, so before each everything of the lower ones is done. Inside a phase, at worst as
    many nodes are down at once as the windows let go, and none of those that come back is back yet.
    """
    found: list[str] = []
    counted = {c.uid: c for c in plan.changes if c.counted}
    budgets = {b.scope: b for b in plan.budgets}
    if FLEET not in budgets:
        return ["the fleet has no budget"]
    for budget in plan.budgets:
        _resolved(budget, _inside(counted, budget), found)
    rolling = plan.rollout.strategy == "rolling"
    if rolling and plan.rollout.window > budgets[FLEET].window:
        found.append("the window is wider than the fleet's")
    now = {b.scope: sum(c.available for c in _inside(counted, b)) for b in plan.budgets}
    minimum = dict(now)
    up = {uid for uid, c in counted.items() if c.available}
    phases: dict[int, list[Step]] = {}
    for step in plan.steps:
        phases.setdefault(step.phase, []).append(step)
    for number in sorted(phases):
        inside = phases[number]
        down = []
        for step in inside:
            takes = step.kind in ("stop", "reload") and step.uid in up
            if step.disrupts != takes:
                found.append(
                    f"step {step.id} {'takes' if takes else 'does not take'} an available node down, "
                    f"and says otherwise"
                )
            if takes:
                assert step.uid is not None
                down.append(step.uid)
                if rolling and step.floor != "rolling":
                    found.append(f"step {step.id} takes a node down without keeping the floor")
        m = _at_once(plan, budgets, [counted[u] for u in down], rolling)
        for scope, budget in budgets.items():
            here = m if scope == FLEET else min(m, _alone(budget, [counted[u] for u in down], rolling))
            low = now[scope] - here
            minimum[scope] = min(minimum[scope], low)
            if rolling and here and low < budget.floor:
                found.append(
                    f"phase {number} may leave {low} of {scope} available, and the floor is {budget.floor}"
                )
            if rolling and down and not here and _matters(budget, [counted[u] for u in down]):
                found.append(f"phase {number} can never start: nothing of {scope} may go down")
        _numbers(inside, up, counted, now[FLEET], m, found)
        for step in inside:
            if step.uid not in counted:
                continue
            if step.kind == "verify":
                up.add(step.uid)
            elif step.kind in ("stop", "reload"):
                up.discard(step.uid)
        for scope, budget in budgets.items():
            now[scope] = (
                len(up) if scope == FLEET else sum(1 for u in up if scope == f"group/{counted[u].group}")
            )
    for scope, budget in budgets.items():
        if budget.minimum != minimum[scope]:
            found.append(f"{scope} may go down to {minimum[scope]}, and the plan says {budget.minimum}")
    return found


def _inside(counted: Mapping[str, Change], budget: Budget) -> list[Change]:
    return [c for c in counted.values() if budget.scope in (FLEET, f"group/{c.group}")]


def _resolved(budget: Budget, inside: list[Change], found: list[str]) -> None:
    name = budget.scope
    if budget.count != len(inside):
        found.append(f"{name} counts {budget.count} nodes and has {len(inside)}")
    if budget.available_now != sum(c.available for c in inside):
        found.append(f"{name} takes {budget.available_now} nodes for available")
    if budget.floor != max(len(inside) - budget.max_unavailable, 0) or budget.hard_floor != budget.reserve:
        found.append(f"{name} has a floor that is not its budget's")
    if budget.floor < budget.hard_floor:
        found.append(f"{name} would roll into its reserve")


def _at_once(plan: FleetPlan, budgets: Mapping[str, Budget], down: list[Change], rolling: bool) -> int:
    """How many of these may be down at one moment, at most."""
    if not rolling or not down:
        return len(down)
    groups = Counter(c.group for c in down)
    by_group = sum(
        min(n, budgets[f"group/{g}"].window) if f"group/{g}" in budgets else n for g, n in groups.items()
    )
    by_host = len(down)
    if plan.rollout.max_unavailable_per_host is not None:
        limit = plan.rollout.max_unavailable_per_host
        by_host = sum(min(n, limit) for n in Counter(c.host for c in down).values())
    return min(len(down), plan.rollout.window, by_group, by_host)


def _alone(budget: Budget, down: list[Change], rolling: bool) -> int:
    inside = [c for c in down if budget.scope == f"group/{c.group}"]
    return min(len(inside), budget.window) if rolling else len(inside)


def _matters(budget: Budget, down: list[Change]) -> bool:
    return budget.scope == FLEET or any(budget.scope == f"group/{c.group}" for c in down)


def _numbers(
    steps: list[Step], up: set[str], counted: Mapping[str, Change], base: int, m: int, found: list[str]
) -> None:
    """Before, during and after each step: with everything that may be down at once down, but for the step itself."""
    low = base - m
    for step in steps:
        said = step.available
        if said is None:
            found.append(f"step {step.id} does not say who is available")
            continue
        takes = step.kind in ("stop", "reload") and step.uid in up
        before = low + 1 if takes else low
        after = low + 1 if step.kind == "verify" and step.uid in counted else low
        if (said.before, said.during, said.after) != (before, low, after):
            found.append(
                f"step {step.id} says {said.before}, {said.during}, {said.after} nodes are available around it; "
                f"at worst it is {before}, {low}, {after}"
            )

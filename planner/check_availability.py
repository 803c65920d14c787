"""The budget's part of the proof: who is available at worst, around every step, in every scope.

A phase is a barrier, so before each everything of the lower ones is done. Inside a phase, at worst as many
nodes are down at once as the windows let go, and none of those that come back is back yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from planner.change import Change
from planner.plan import Budget, FleetPlan, Step

FLEET = "fleet"
_DOWN = ("pre_drain", "drain", "stop", "reload")


def availability(plan: FleetPlan) -> list[str]:
    """The violations of budgets and of the numbers beside each step."""
    if not any(b.scope == FLEET for b in plan.budgets):
        return ["the fleet has no budget"]
    proof = _Proof(plan)
    for budget in plan.budgets:
        proof.resolved(budget)
    phases: dict[int, list[Step]] = {}
    for step in plan.steps:
        phases.setdefault(step.phase, []).append(step)
    for number in sorted(phases):
        proof.phase(number, phases[number])
    for scope, budget in proof.budgets.items():
        if budget.minimum != proof.minimum[scope]:
            proof.found.append(
                f"{scope} may go down to {proof.minimum[scope]}, and the plan says {budget.minimum}"
            )
    return proof.found


class _Proof:
    def __init__(self, plan: FleetPlan) -> None:
        self.found: list[str] = []
        self.budgets = {b.scope: b for b in plan.budgets}
        self._rollout = plan.rollout
        self._specs = plan.specs
        self._rolling = plan.rollout.strategy == "rolling"
        self._counted = {c.uid: c for c in plan.changes if c.counted}
        self._up = {uid for uid, c in self._counted.items() if c.available}
        self.minimum = {scope: self._available(scope) for scope in self.budgets}
        if self._rolling and plan.rollout.window > self.budgets[FLEET].window:
            self.found.append("the window is wider than the fleet's")

    def resolved(self, budget: Budget) -> None:
        """That a budget's numbers are those of the nodes it is about."""
        name = budget.scope
        inside = sum(1 for c in self._counted.values() if _inside(c, name))
        if budget.count != inside:
            self.found.append(f"{name} counts {budget.count} nodes and has {inside}")
        if budget.available_now != self._available(name):
            self.found.append(f"{name} takes {budget.available_now} nodes for available")
        if budget.floor != max(inside - budget.max_unavailable, 0) or budget.hard_floor != budget.reserve:
            self.found.append(f"{name} has a floor that is not its budget's")
        if budget.floor < budget.hard_floor:
            self.found.append(f"{name} would roll into its reserve")

    def phase(self, number: int, steps: list[Step]) -> None:
        """One phase at worst, and then as it ends."""
        takes = self._takes(steps)
        down = self._disruptions(steps, takes)
        m = self._at_once(down)
        for scope, budget in self.budgets.items():
            inside = down if scope == FLEET else [c for c in down if _inside(c, scope)]
            here = m if scope == FLEET else min(m, self._window(budget, inside))
            low = self._available(scope) - here
            self.minimum[scope] = min(self.minimum[scope], low)
            if self._rolling and here and low < budget.floor:
                self.found.append(
                    f"phase {number} may leave {low} of {scope} available, and the floor is {budget.floor}"
                )
            if self._rolling and inside and not here:
                self.found.append(f"phase {number} can never start: nothing of {scope} may go down")
        self._numbers(steps, takes, m)
        for step in steps:
            if step.uid in self._counted:
                if step.kind == "verify":
                    self._up.add(step.uid)
                elif step.kind in _DOWN:
                    self._up.discard(step.uid)

    def _takes(self, steps: Iterable[Step]) -> set[int]:
        """The steps of a phase that take an available node down: of each node the first that can."""
        up = set(self._up)
        takes = set()
        for step in steps:
            if step.kind in _DOWN and step.uid in up:
                takes.add(step.id)
                up.discard(step.uid)
        return takes

    def _disruptions(self, steps: Iterable[Step], takes: set[int]) -> list[Change]:
        """The available nodes that these steps take down, whatever the steps say of it."""
        down = []
        for step in steps:
            if step.disrupts != (step.id in takes):
                does = "takes" if step.id in takes else "does not take"
                self.found.append(f"step {step.id} {does} an available node down, and says otherwise")
            if step.id in takes and step.uid is not None:
                down.append(self._counted[step.uid])
                if self._rolling and step.floor != "rolling":
                    self.found.append(f"step {step.id} takes a node down without keeping the floor")
        return down

    def _at_once(self, down: list[Change]) -> int:
        """How many of these may be down at one moment, at most."""
        if not self._rolling or not down:
            return len(down)
        by_group = 0
        for name, n in Counter(c.group for c in down).items():
            budget = self.budgets.get(f"group/{name}")
            by_group += n if budget is None else min(n, budget.window)
        return min(self._spread(down), self._rollout.window, by_group)

    def _spread(self, down: list[Change]) -> int:
        """How many of these the bounds per host and per label let go at once."""
        limit = self._rollout.max_unavailable_per_host
        most = [len(down)]
        if limit is not None:
            most.append(sum(min(n, limit) for n in Counter(c.host for c in down).values()))
        for label, limit in self._rollout.max_unavailable_per_label.items():
            values = Counter(self._labels(c).get(label) for c in down)
            free = values.pop(None, 0)
            most.append(free + sum(min(n, limit) for n in values.values()))
        return min(most)

    def _labels(self, change: Change) -> dict[str, str]:
        spec = self._specs.get(change.node)
        return {} if spec is None else spec.labels

    def _window(self, budget: Budget, down: list[Change]) -> int:
        return min(self._spread(down), budget.window) if self._rolling else len(down)

    def _available(self, scope: str) -> int:
        return len(self._up) if scope == FLEET else sum(_inside(self._counted[u], scope) for u in self._up)

    def _numbers(self, steps: Iterable[Step], takes: set[int], m: int) -> None:
        """Before, during and after each step: everything that may be down at once is, but for the step itself."""
        low = len(self._up) - m
        for step in steps:
            said = step.available
            before = low + 1 if step.id in takes else low
            after = low + 1 if step.kind == "verify" and step.uid in self._counted else low
            if said is None or said.during != low or said.before != before or said.after != after:
                self.found.append(
                    f"step {step.id} says {_said(step)} nodes are available around it; "
                    f"at worst it is {before}, {low}, {after}"
                )


def _inside(change: Change, scope: str) -> bool:
    return scope in (FLEET, f"group/{change.group}")


def _said(step: Step) -> str:
    a = step.available
    return "nothing of how many" if a is None else f"{a.before}, {a.during}, {a.after}"

"""Budgets in whole nodes: how many may be down, and below which number nothing may go.

The budget floor (`count - max_unavailable`) binds rolling steps, the hard floor (`reserve`) everything else
that takes an available node down; what was accepted as downtime is bound by neither. A node counts that
the manifest declares; one is available that runs and passes its probes. Design section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from manifests.bounds import resolve
from manifests.manifest import Path
from planner.situation import Findings, Situation
from planner.spread import spreads
from planner.work import Work

FLEET = "fleet"


@dataclass(slots=True)
class Scope:
    """One budget, resolved. `stays_down`: nodes that are unavailable and that the plan does not bring back."""

    scope: str
    count: int
    max_unavailable: int
    reserve: int
    available_now: int
    brought_back: int
    disrupted: int
    stays_down: list[Work]
    path: Path
    declared: int | str

    @property
    def floor(self) -> int:
        """Available nodes that a rolling step must leave."""
        return max(self.count - self.max_unavailable, 0)

    @property
    def rounds_to_zero(self) -> bool:
        """Whether a percentage allows not even one node; refused for itself, whatever is planned."""
        return self.max_unavailable == 0 and isinstance(self.declared, str)

    @property
    def available(self) -> int:
        """Available nodes when every repair is done and nothing was taken down yet."""
        return self.available_now + self.brought_back

    @property
    def window(self) -> int:
        """Available nodes that may be down at once: what is left of max_unavailable."""
        return max(self.available - self.floor, 0)


def scopes(situation: Situation, works: Iterable[Work]) -> list[Scope]:
    """The budget of the fleet, and those of groups that have their own."""
    rollout = situation.fleet.rollout
    found = {
        FLEET: _scope(FLEET, ("rollout",), rollout.max_unavailable, rollout.reserve),
    }
    for i, group in enumerate(situation.fleet.groups):
        if group.budget is not None:
            name = f"group/{group.name}"
            found[name] = _scope(
                name, ("groups", i, "budget"), group.budget.max_unavailable, group.budget.reserve
            )
    grouped = len(found) > 1
    fleet = found[FLEET]
    for work in works:
        if not work.counts:
            continue
        _count(fleet, work)
        if grouped and (scope := found.get(f"group/{work.change.group}")) is not None:
            _count(scope, work)
    for scope in found.values():
        scope.max_unavailable = resolve(scope.declared, scope.count)
        scope.reserve = resolve(scope.reserve, scope.count)
    return list(found.values())


def _scope(name: str, path: Path, max_unavailable: int | str, reserve: int | str) -> Scope:
    scope = Scope(name, 0, 0, 0, 0, 0, 0, [], path, max_unavailable)
    # The percentage stays until all nodes are counted.
    scope.reserve = reserve  # type: ignore[assignment]
    return scope


def _count(scope: Scope, work: Work) -> None:
    scope.count += 1
    if work.change.available:
        scope.available_now += 1
        if work.disrupts:
            scope.disrupted += 1
    elif work.returns:
        scope.brought_back += 1
    else:
        scope.stays_down.append(work)


def judge(situation: Situation, findings: Findings, found: list[Scope]) -> None:
    """Refuses budgets that mean nothing: one that rounds to zero, or a reserve that leaves no room."""
    for scope in found:
        if scope.count == 0:
            continue
        name = f"{situation.name}, {scope.scope}" if scope.scope != FLEET else situation.name
        if scope.rounds_to_zero:
            findings.refuse(
                "budget.rounds-to-zero",
                "max_unavailable rounds to zero",
                f"{name}: {scope.declared} of {scope.count} nodes is less than one node, so nothing could ever roll",
                place=situation.place(*scope.path, "max_unavailable"),
                hint=f"write a number of nodes, or a percentage from {-(-100 // scope.count)}%",
            )
        elif scope.reserve > 0 and scope.max_unavailable >= scope.count - scope.reserve:
            findings.refuse(
                "budget.reserve",
                "The reserve leaves no room",
                f"{name}: with {scope.count} nodes, max_unavailable {scope.max_unavailable} has to be below "
                f"count - reserve = {scope.count - scope.reserve}",
                place=situation.place(*scope.path, "reserve"),
                hint="lower max_unavailable or reserve, or add nodes",
            )


def room(situation: Situation, findings: Findings, found: list[Scope], works: list[Work]) -> bool:
    """Whether every disruption of the plan keeps its floors; what stands in the way is refused by name."""
    before = len(findings.refusals)
    if situation.options.drain:
        _room_to_drain(situation, findings, found, works)
    for scope in found:
        if scope.disrupted and scope.window == 0 and not scope.rounds_to_zero:
            _no_room(situation, findings, scope)
    for spread in spreads(situation.fleet.rollout):
        down = Counter(spread.of(w) for w in found[0].stays_down)
        for domain in dict.fromkeys(spread.of(w) for w in works if w.disrupts):
            if domain is not None and down[domain] >= spread.limit:
                findings.refuse(
                    spread.code,
                    f"No node of this {spread.word} may go down",
                    f"{situation.name}: {down[domain]} nodes of {domain} are unavailable already, "
                    f"and {spread.declared}",
                    place=situation.place(*spread.path),
                    hint=f"repair them first, or leave the {spread.word} out with --target",
                )
    return len(findings.refusals) == before


def _room_to_drain(situation: Situation, findings: Findings, found: list[Scope], works: list[Work]) -> None:
    """A drained node stays down: all of them together have to fit, not one after the other."""
    host = situation.options.drain
    hint = "raise max_unavailable, add nodes elsewhere first, or accept downtime with --accept-downtime"
    for scope in found:
        if scope.disrupted > scope.window > 0:
            name = situation.name if scope.scope == FLEET else f"{situation.name}, {scope.scope}"
            left = scope.available_now - scope.disrupted
            findings.refuse(
                "budget.drain",
                "The floor would not be kept while the host is drained",
                f"{name}: without the {scope.disrupted} nodes of {host}, {left} of {scope.count} stay available, "
                f"and the floor is {scope.floor}",
                place=situation.place(*scope.path, "max_unavailable"),
                hint=hint,
            )
    for spread in spreads(situation.fleet.rollout):
        going = Counter(spread.of(w) for w in works if w.disrupts)
        down = going + Counter(spread.of(w) for w in found[0].stays_down)
        for domain in going:
            if domain is not None and down[domain] > spread.limit:
                findings.refuse(
                    spread.code,
                    f"The {spread.word} would lose more nodes than it may",
                    f"{situation.name}: {down[domain]} nodes of {domain} would be down, and {spread.declared}",
                    place=situation.place(*spread.path),
                    hint=hint,
                )


def _no_room(situation: Situation, findings: Findings, scope: Scope) -> None:
    name = situation.name if scope.scope == FLEET else f"{situation.name}, {scope.scope}"
    if scope.max_unavailable == 0:
        why = "max_unavailable is 0, so no node may go down"
    else:
        down = [f"{w.name} ({_why(w)})" for w in scope.stays_down]
        why = (
            f"{scope.available} of {scope.count} nodes would be available, and the floor is {scope.floor} "
            f"(count {scope.count} - max_unavailable {scope.max_unavailable}); not available and not brought "
            f"back by this plan: {', '.join(down[:5])}{' …' if len(down) > 5 else ''}"
        )
    findings.refuse(
        "budget.no-room",
        "The floor would not be kept",
        f"{name}: {why}",
        place=situation.place(*scope.path, "max_unavailable"),
        hint="repair those nodes first, raise max_unavailable, or accept downtime with --accept-downtime",
    )


def _why(work: Work) -> str:
    if work.change.reasons and work.change.reasons[0].code == "unreachable":
        return "not reachable"
    if work.seen is None:
        return "not there"
    return work.seen.state.value if work.seen.state != "running" else f"health {work.seen.health.value}"

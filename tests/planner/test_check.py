"""The proof has teeth: good plans pass, and every single thing that is made wrong in one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.change import Action, Change
from planner.check import check
from planner.plan import Availability, FleetPlan, Floor, Plan, Precondition, Refusal, Step, Verdict, sealed
from tests.planner.fleets import World, compatibility, fleet, group, manifests

PAIRS = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"), ("1.1.0", "2.0.0", "full"))
ROLLOUT = {"max_unavailable": 1, "reserve": 1, "canary": {"count": 1}}


def world() -> World:
    start = World()
    start.reach(manifests(fleet("1.0.0", rollout=ROLLOUT), compat=[PAIRS]))
    return start


def upgrade() -> Plan:
    return world().plan(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[PAIRS]))


def full() -> Plan:
    start = world()
    start.reach(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[PAIRS]))
    return start.plan(manifests(fleet("2.0.0", rollout=ROLLOUT), compat=[PAIRS]), accept_downtime=True)


def docker() -> Plan:
    start = World()
    body = group(substrate="docker", data={"retain": False}, budget={"max_unavailable": 1})
    start.reach(manifests(fleet("1.0.0", body, rollout=ROLLOUT), compat=[PAIRS]))
    smaller = {**body, "count": 2}
    return start.plan(manifests(fleet("1.1.0", smaller), compat=[PAIRS]))


def having(plan: Plan, **values: Any) -> Plan:
    """The plan with other values in its one fleet, sealed anew: only its contents can betray it."""
    inside = plan.fleets[0].model_copy(update=values)
    return sealed(plan.model_copy(update={"fleets": (inside,)}))


def stepped(plan: Plan, kind: str, **values: Any) -> Plan:
    """The plan with other values in its first step of that kind."""
    steps = list(plan.fleets[0].steps)
    i = next(i for i, s in enumerate(steps) if s.kind == kind)
    steps[i] = steps[i].model_copy(update=values)
    return having(plan, steps=tuple(steps))


def without(plan: Plan, gone: Callable[[Step], bool]) -> Plan:
    """The plan without some steps, ids and references made whole again."""
    kept = [s for s in plan.fleets[0].steps if not gone(s)]
    ids = {s.id: i for i, s in enumerate(kept)}
    steps = [
        s.model_copy(update={"id": ids[s.id], "after": tuple(ids[a] for a in s.after if a in ids)})
        for s in kept
    ]
    return having(plan, steps=tuple(steps))


def changed(plan: Plan, **values: Any) -> Plan:
    first, *rest = plan.fleets[0].changes
    return having(plan, changes=(first.model_copy(update=values), *rest))


def budget(plan: Plan, **values: Any) -> Plan:
    first, *rest = plan.fleets[0].budgets
    return having(plan, budgets=(first.model_copy(update=values), *rest))


def rollout(plan: Plan, **values: Any) -> Plan:
    return having(plan, rollout=plan.fleets[0].rollout.model_copy(update=values))


def swapped(plan: Plan) -> Plan:
    """The first node's start before its create."""
    steps = list(plan.fleets[0].steps)
    i = next(i for i, s in enumerate(steps) if s.kind == "create")
    steps[i], steps[i + 1] = (
        steps[i].model_copy(update={"kind": steps[i + 1].kind}),
        steps[i + 1].model_copy(update={"kind": steps[i].kind}),
    )
    return having(plan, steps=tuple(steps))


def fleet_plan(plan: Plan) -> FleetPlan:
    return plan.fleets[0]


def first(plan: Plan) -> Change:
    return plan.fleets[0].changes[0]


NOBODY = Availability(before=9, during=9, after=9)
REFUSAL = Refusal(code="x", summary="x", detail="x")
UNKNOWN = Verdict(product="hello", from_="1.0.0", to="1.1.0", mode="unknown")
MUTATIONS: dict[str, tuple[Callable[[], Plan], Callable[[Plan], Plan]]] = {
    "another id": (upgrade, lambda p: p.model_copy(update={"plan_id": "sha256:" + "0" * 64})),
    "a target it does not keep": (
        upgrade,
        lambda p: sealed(p.model_copy(update={"targets": ("node/hello/web-0",)})),
    ),
    "refused, with steps": (upgrade, lambda p: having(p, refusals=(REFUSAL,))),
    "a node twice": (upgrade, lambda p: having(p, changes=(*fleet_plan(p).changes, first(p)))),
    "an id out of place": (upgrade, lambda p: stepped(p, "start", id=99)),
    "waits for what comes later": (upgrade, lambda p: stepped(p, "create", after=(4,))),
    "waits for a later phase": (upgrade, lambda p: stepped(p, "stop", phase=3)),
    "an unknown host": (upgrade, lambda p: having(p, hosts={})),
    "no specification": (upgrade, lambda p: stepped(p, "create", spec=None)),
    "another's specification is gone": (upgrade, lambda p: having(p, specs={})),
    "no deadline": (upgrade, lambda p: stepped(p, "verify", deadline_ms=0)),
    "no precondition": (upgrade, lambda p: stepped(p, "stop", precondition=None)),
    "a step of no node": (upgrade, lambda p: stepped(p, "stop", uid=None, node=None)),
    "a step of a stranger": (upgrade, lambda p: stepped(p, "stop", uid="stranger")),
    "a step on another host": (upgrade, lambda p: stepped(p, "start", host="elsewhere")),
    "a stop left out": (upgrade, lambda p: without(p, lambda s: s.kind == "stop" and s.node == "web-1")),
    "a verify left out": (upgrade, lambda p: without(p, lambda s: s.kind == "verify" and s.node == "web-2")),
    "a node left out": (upgrade, lambda p: without(p, lambda s: s.node == "web-1")),
    "steps swapped": (upgrade, swapped),
    "a chain broken": (upgrade, lambda p: stepped(p, "start", after=())),
    "no stage": (upgrade, lambda p: without(p, lambda s: s.kind == "stage")),
    "staged too late": (upgrade, lambda p: stepped(p, "stage", phase=7)),
    "an old generation": (upgrade, lambda p: stepped(p, "create", generation=1)),
    "a generation that jumps back": (upgrade, lambda p: stepped(p, "start", generation=1)),
    "the change has another generation": (upgrade, lambda p: changed(p, generation=7)),
    "creates what is there": (
        upgrade,
        lambda p: changed(p, action=Action.CREATE),
    ),
    "stops another generation": (upgrade, lambda p: stepped(p, "stop", generation=5)),
    "expects another release": (
        upgrade,
        lambda p: stepped(p, "stop", precondition=Precondition(generation=1, release=first(p).after)),
    ),
    "does not say it disrupts": (upgrade, lambda p: stepped(p, "stop", disrupts=False)),
    "says it disrupts": (upgrade, lambda p: stepped(p, "create", disrupts=True)),
    "keeps no floor": (upgrade, lambda p: stepped(p, "stop", floor=Floor.NONE)),
    "no numbers": (upgrade, lambda p: stepped(p, "stop", available=None)),
    "better numbers": (upgrade, lambda p: stepped(p, "stop", available=NOBODY)),
    "a wider window": (upgrade, lambda p: rollout(p, window=2)),
    "a wider window everywhere": (upgrade, lambda p: rollout(budget(p, window=2), window=2)),
    "no window": (upgrade, lambda p: rollout(p, window=0)),
    "a lower floor": (upgrade, lambda p: budget(p, floor=1)),
    "another count": (upgrade, lambda p: budget(p, count=2)),
    "more available": (upgrade, lambda p: budget(p, available_now=2)),
    "another minimum": (upgrade, lambda p: budget(p, minimum=3)),
    "into the reserve": (upgrade, lambda p: budget(p, reserve=3, hard_floor=3)),
    "no budget": (upgrade, lambda p: having(p, budgets=())),
    "a node that does not count": (upgrade, lambda p: changed(p, counted=False)),
    "a node that was not there": (upgrade, lambda p: changed(p, available=False)),
    "a node that does not run": (upgrade, lambda p: changed(p, live=False)),
    "no verdict": (upgrade, lambda p: having(p, verdicts=())),
    "an unknown transition": (upgrade, lambda p: having(p, verdicts=(UNKNOWN,))),
    "a hidden version": (
        upgrade,
        lambda p: changed(p, before=first(p).before.model_copy(update={"version": "0.9.0"})),  # type: ignore[union-attr]
    ),
    "a way back that is not there": (
        full,
        lambda p: having(p, no_return=None),
    ),
    "no way back that is there": (upgrade, lambda p: having(p, no_return=3)),
    "no strategy": (upgrade, lambda p: rollout(p, strategy="none")),
    "a full plan called rolling": (full, lambda p: rollout(p, strategy="rolling")),
    "a full plan unaccepted": (full, lambda p: rollout(p, accept_downtime=False)),
    "one stop too late": (full, lambda p: stepped(p, "stop", phase=2)),
    "a destroy left out": (docker, lambda p: without(p, lambda s: s.kind == "destroy" and s.node == "web-0")),
    "a group's window": (
        docker,
        lambda p: having(
            p,
            budgets=(
                fleet_plan(p).budgets[0].model_copy(update={"window": 2}),
                fleet_plan(p).budgets[1].model_copy(update={"window": 2}),
            ),
            rollout=fleet_plan(p).rollout.model_copy(update={"window": 2}),
        ),
    ),
    "data lost in silence": (
        docker,
        lambda p: having(
            p, changes=tuple(c.model_copy(update={"data_lost": False}) for c in fleet_plan(p).changes)
        ),
    ),
}


@pytest.mark.parametrize("make", [upgrade, full, docker])
def test_a_good_plan_passes(make: Callable[[], Plan]) -> None:
    plan = make()
    assert not plan.refused
    assert plan.fleets[0].steps
    assert check(plan) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_mutation_is_found(name: str) -> None:
    make, mutate = MUTATIONS[name]
    assert check(mutate(make())) != []

"""The calls' part of the proof has teeth: a hook, a drain or a backup that is missing or misplaced is found."""

from __future__ import annotations

import pytest

from planner.check import check
from planner.plan import Plan
from tests.planner.fleets import World, compatibility, fleet, manifests
from tests.planner.test_check import having, stepped, without

HOOK = ({"command": ("./hook",)},)
MOMENTS = ("pre_rollout", "pre_drain", "backup", "post_start", "post_rollout")
ROLLOUT = {
    "hooks": dict.fromkeys(MOMENTS, HOOK),
    "drain": {"http": {"path": "/drain"}},
}
PAIRS = compatibility(
    {"from": "1.0.0", "to": "1.1.0", "mode": "rolling", "reverse": "rolling", "changes_format": True}
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    world = World()
    world.reach(manifests(fleet("1.0.0", rollout=ROLLOUT), compat=[PAIRS]))
    return world.plan(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[PAIRS]))


def test_a_plan_with_every_call_is_sound(plan: Plan) -> None:
    assert {s.kind.value for s in plan.fleets[0].steps} >= {*MOMENTS, "drain"}
    assert check(plan) == []


@pytest.mark.parametrize("kind", [*MOMENTS, "drain"])
def test_a_call_that_is_left_out_is_found(plan: Plan, kind: str) -> None:
    first = next(s.id for s in plan.fleets[0].steps if s.kind == kind)
    found = check(without(plan, lambda s: s.id == first))
    assert any(kind in problem for problem in found), found


@pytest.mark.parametrize("kind", MOMENTS)
def test_a_hook_that_there_is_not_is_found(plan: Plan, kind: str) -> None:
    assert any("which there is not" in problem for problem in check(stepped(plan, kind, hook=7)))


def test_a_backup_that_comes_too_late_is_found(plan: Plan) -> None:
    """Between stop and placement, not behind it."""
    steps = list(plan.fleets[0].steps)
    i = next(i for i, s in enumerate(steps) if s.kind == "backup")
    one, two = steps[i], steps[i + 1]
    assert two.kind == "create"
    steps[i] = two.model_copy(update={"id": one.id, "after": one.after})
    steps[i + 1] = one.model_copy(update={"id": two.id, "after": (one.id,)})
    steps[i + 2] = steps[i + 2].model_copy(update={"after": (two.id,)})
    assert check(having(plan, steps=tuple(steps))) != []


def test_a_format_that_changes_with_no_backup_declared_is_found(plan: Plan) -> None:
    specs = {
        name: spec.model_copy(update={"hooks": spec.hooks.model_copy(update={"backup": ()})})
        for name, spec in plan.fleets[0].specs.items()
    }
    found = check(having(without(plan, lambda s: s.kind == "backup"), specs=specs))
    assert any("nothing backs it up" in problem for problem in found), found


def test_a_drain_takes_its_node_down_and_must_say_so(plan: Plan) -> None:
    assert any("takes an available node down" in p for p in check(stepped(plan, "pre_drain", disrupts=False)))

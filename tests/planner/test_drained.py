"""A node that a run left drained and running: its probe passes, and only the ledger knows that it serves nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.change import Action
from planner.plan import StepKind
from tests.planner.fleets import World, compatibility, fleet, group, manifests

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))


@pytest.fixture
def world() -> World:
    made = World()
    made.reach(manifests(fleet("1.0.0", group()), compat=[TABLE]))
    nodes = next(iter(made.recorded.values()))
    uid = next(uid for uid, n in nodes.items() if n.name == "web-1")
    nodes[uid] = replace(nodes[uid], drained=True)
    return made


def test_it_is_restarted_without_another_drain_and_then_nothing_is_left_to_do(world: World) -> None:
    wanted = manifests(fleet("1.0.0", group()), compat=[TABLE])
    plan = world.plan(wanted)
    (change,) = [c for c in plan.fleets[0].changes if c.action is not Action.NOOP]
    assert (change.node, change.action, change.available) == ("web-1", Action.RESTART, False)
    assert [r.code for r in change.reasons] == ["drained"]
    kinds = [s.kind for s in plan.fleets[0].steps if s.node == "web-1"]
    assert kinds == [StepKind.STOP, StepKind.CREATE, StepKind.START, StepKind.VERIFY]
    world.apply(plan)
    assert all(c.action is Action.NOOP for c in world.plan(wanted).fleets[0].changes)


def test_it_counts_as_down_and_goes_first(world: World) -> None:
    plan = world.plan(manifests(fleet("1.1.0", group()), compat=[TABLE]))
    assert plan.fleets[0].steps[0].kind is StepKind.STAGE
    assert next(s.node for s in plan.fleets[0].steps if s.node is not None) == "web-1"

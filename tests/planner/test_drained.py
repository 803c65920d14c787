"""A node that a run left drained and running: its probe passes, and only the ledger knows that it serves nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.change import Action
from planner.check import check
from planner.observed import HealthState, NodeState
from planner.plan import StepKind
from tests.planner.fleets import World, compatibility, fleet, group, manifests

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))


AT, BEFORE, AFTER = (f"2026-01-01T0{hour}:00:00Z" for hour in (2, 1, 3))
DRAIN = {"drain": {"http": {"path": "/drain"}, "timeout": "20s"}}


def make(*, drained: bool, started: str | None = None, substrate: str = "host") -> tuple[World, Any]:
    """Three nodes that serve, of which web-1 was withdrawn at AT."""
    made, body = World(), group(substrate=substrate)
    wanted = manifests(fleet("1.0.0", body, rollout=DRAIN), compat=[TABLE])
    made.reach(wanted)
    nodes = next(iter(made.recorded.values()))
    uid = next(uid for uid, n in nodes.items() if n.name == "web-1")
    nodes[uid] = replace(nodes[uid], withdrawn_at=AT, drained=drained)
    made.nodes[uid].started_at = started
    return made, wanted


@pytest.mark.parametrize("started", [None, BEFORE])
def test_it_is_restarted_without_another_drain_and_then_nothing_is_left_to_do(started: str | None) -> None:
    world, wanted = make(drained=True, started=started)
    plan = world.plan(wanted)
    assert check(plan) == []
    (change,) = [c for c in plan.fleets[0].changes if c.action is not Action.NOOP]
    assert (change.node, change.action, change.available) == ("web-1", Action.RESTART, False)
    assert [r.code for r in change.reasons] == ["drained"]
    kinds = [s.kind for s in plan.fleets[0].steps if s.node == "web-1"]
    assert kinds == [StepKind.STOP, StepKind.START, StepKind.VERIFY]
    world.apply(plan)
    assert all(c.action is Action.NOOP for c in world.plan(wanted).fleets[0].changes)


def test_one_that_was_only_taken_out_of_a_load_balancer_is_drained_before_its_stop() -> None:
    """Its hook was done and its drain was not: it may have work under way, so it counts as up until it is stopped."""
    world, wanted = make(drained=False)
    plan = world.plan(wanted)
    assert check(plan) == []
    kinds = [s.kind for s in plan.fleets[0].steps if s.node == "web-1"]
    assert kinds == [StepKind.DRAIN, StepKind.STOP, StepKind.START, StepKind.VERIFY]


def test_one_that_was_started_since_serves_and_is_left_alone() -> None:
    world, wanted = make(drained=True, started=AFTER)
    assert all(c.action is Action.NOOP for c in world.plan(wanted).fleets[0].changes)


def test_it_counts_as_down_and_goes_first() -> None:
    world, _ = make(drained=True)
    plan = world.plan(manifests(fleet("1.1.0", group(), rollout=DRAIN), compat=[TABLE]))
    assert next(s.node for s in plan.fleets[0].steps if s.node is not None) == "web-1"


def test_a_container_that_its_engine_starts_again_is_stopped_before_it_is_started() -> None:
    world, wanted = make(drained=False, started=AFTER, substrate="docker")
    one = next(n for n in world.nodes.values() if n.name == "web-1")
    one.state, one.health = NodeState.RESTARTING, HealthState.UNKNOWN
    plan = world.plan(wanted)
    assert check(plan) == []
    kinds = [s.kind for s in plan.fleets[0].steps if s.node == "web-1"]
    assert kinds == [StepKind.STOP, StepKind.START, StepKind.VERIFY]

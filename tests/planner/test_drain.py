"""Cordoned hosts, and hosts that are drained: nothing starts there, what stops fits the budget, nothing moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from manifests.address import HostAddress
from manifests.manifest import Manifests
from planner.change import Action
from planner.check import check
from planner.make import make
from planner.observed import NodeState
from planner.options import Options
from planner.plan import FleetPlan, Plan
from tests.planner.fleets import NOW, World, compatibility, fleet, group, host, manifests

HOSTS = ("h1", "h2", "h3")


def wanted(version: str = "1.0.0", count: int = 6, **rollout: Any) -> Manifests:
    body = group(count=count, hosts=HOSTS)
    pairs = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    declared = fleet(version, body, rollout=rollout or {"max_unavailable": 2})
    return manifests(declared, hosts=[host(h) for h in HOSTS], compat=[pairs])


def world() -> World:
    start = World(*HOSTS)
    start.reach(wanted())
    return start


def planned(start: World, docs: Manifests, *cordoned: str, **options: Any) -> tuple[Plan, FleetPlan]:
    ledger = {k: replace(r, cordoned=frozenset(cordoned)) for k, r in start.ledger().items()}
    plan = make(docs, start.snapshot(), ledger, Options(**options), NOW, {})
    assert check(plan) == []
    return plan, plan.fleets[0]


def drained(start: World, docs: Manifests, name: str = "h1", **options: Any) -> tuple[Plan, FleetPlan]:
    return planned(start, docs, drain=name, targets=(HostAddress(name),), **options)


def test_the_nodes_of_a_drained_host_stop_within_the_budget_and_nothing_else_happens() -> None:
    _, plan = drained(world(), wanted())
    assert plan.refusals == ()
    assert [(s.kind.value, s.host, s.floor.value, s.disrupts) for s in plan.steps] == [
        ("stop", "h1", "rolling", True)
    ] * 2
    assert plan.budgets[0].minimum == 4
    assert {c.action for c in plan.changes if c.host != "h1"} == {Action.NOOP}


def test_they_stay_down_so_all_of_them_have_to_fit_and_not_one_after_the_other() -> None:
    _, plan = drained(world(), wanted(max_unavailable=1))
    assert [r.code for r in plan.refusals] == ["budget.drain"]
    assert "without the 2 nodes of h1, 4 of 6 stay available, and the floor is 5" in plan.refusals[0].detail
    assert plan.steps == ()
    _, accepted = drained(world(), wanted(max_unavailable=1), accept_downtime=True)
    assert accepted.refusals == ()
    assert [s.kind.value for s in accepted.steps] == ["stop", "stop"]


def test_the_bound_of_a_host_holds_for_its_drain() -> None:
    _, plan = drained(world(), wanted(max_unavailable=2, max_unavailable_per_host=1))
    assert [r.code for r in plan.refusals] == ["budget.host"]


def test_a_drain_has_no_canary_and_no_way_back() -> None:
    docs = wanted(max_unavailable=2, canary={"count": 1, "bake": "60s"}, auto_revert=True)
    _, plan = drained(world(), docs)
    assert (plan.rollout.canary_phase, plan.rollout.bake_ms, plan.rollout.auto_revert) == (None, 0, False)
    assert {s.phase for s in plan.steps} == {0}


def test_a_drained_host_is_left_alone_by_plans_and_its_nodes_use_up_the_budget() -> None:
    start = world()
    plan, _ = drained(start, wanted())
    start.apply(plan)
    assert {n.state for n in start.nodes.values() if n.host == "h1"} == {NodeState.STOPPED}
    _, still = planned(start, wanted(), "h1")
    assert still.steps == ()
    assert any("host h1 is cordoned: web-0, web-3 stay as they are" in w for w in still.warnings)
    _, rolling = planned(start, wanted("1.1.0", max_unavailable=3), "h1")
    assert {s.host for s in rolling.steps} == {"h2", "h3"}
    assert rolling.rollout.window == 1, "two of the three are down already"
    _, again = planned(start, wanted())
    assert {(c.node, c.action) for c in again.changes if c.action is not Action.NOOP} == {
        ("web-0", Action.RESTART),
        ("web-3", Action.RESTART),
    }, "uncordoned, they start as what they were"


@pytest.mark.parametrize("count", [7, 9])
def test_nothing_new_is_created_on_a_cordoned_host_nor_anywhere_in_its_place(count: int) -> None:
    _, plan = planned(world(), wanted(count=count), "h1")
    assert {s.host for s in plan.steps} <= {"h2", "h3"}
    new = {c.node: c.host for c in plan.changes if c.action is Action.CREATE}
    assert new == {f"web-{n}": HOSTS[n % 3] for n in range(6, count) if n % 3}


def test_a_cordoned_host_keeps_what_runs_there() -> None:
    _, plan = planned(world(), wanted(), "h1", "h2", "h3")
    assert (plan.steps, plan.warnings) == ((), ())


def test_what_is_no_longer_declared_is_destroyed_on_a_cordoned_host_and_not_by_its_drain() -> None:
    start = world()
    _, plan = planned(start, wanted(count=3), "h1")
    assert {(s.kind.value, s.host) for s in plan.steps if s.node == "web-3"} == {
        ("stop", "h1"),
        ("destroy", "h1"),
    }
    _, drain = drained(start, wanted(count=3))
    assert {s.kind.value for s in drain.steps} == {"stop"}

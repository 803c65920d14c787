"""The budget table of design section 4, and how bounds become whole numbers."""

from __future__ import annotations

import pytest

from manifests.bounds import resolve
from planner.plan import FleetPlan
from tests.planner.fleets import World, compatibility, fleet, group, manifests

PAIRS = compatibility(("1.0.0", "1.1.0", "rolling"))


def rolled(count: int, max_unavailable: int | str, reserve: int | str) -> FleetPlan:
    """The upgrade of a fleet of this size under this budget."""
    world = World()
    body = group(count=count)
    world.reach(manifests(fleet("1.0.0", body, rollout={"max_unavailable": "100%"}), compat=[PAIRS]))
    rollout = {"max_unavailable": max_unavailable, "reserve": reserve}
    return world.plan(manifests(fleet("1.1.0", body, rollout=rollout), compat=[PAIRS])).fleets[0]


@pytest.mark.parametrize(
    ("count", "max_unavailable", "reserve", "floor", "hard_floor"),
    [(1, 1, 0, 0, 0), (2, 1, 0, 1, 0), (3, 1, 1, 2, 1), (10, "25%", 3, 8, 3), (10, "25%", "30%", 8, 3)],
)
def test_the_table(
    count: int, max_unavailable: int | str, reserve: int | str, floor: int, hard_floor: int
) -> None:
    plan = rolled(count, max_unavailable, reserve)
    budget = plan.budgets[0]
    assert (budget.floor, budget.hard_floor, budget.minimum) == (floor, hard_floor, floor)
    assert plan.rollout.window == count - floor
    assert plan.refusals == ()


@pytest.mark.parametrize(("count", "bound"), [(3, "25%"), (1, "99%"), (3, "0%"), (9, "11%")])
def test_a_percentage_that_rounds_to_zero_is_refused_and_never_bumped(count: int, bound: str) -> None:
    plan = rolled(count, bound, 0)
    assert [r.code for r in plan.refusals] == ["budget.rounds-to-zero"]
    assert plan.steps == ()
    assert plan.budgets[0].max_unavailable == 0


@pytest.mark.parametrize(
    ("count", "max_unavailable", "reserve"), [(3, 2, 1), (2, 1, 1), (3, 3, 2), (4, "50%", "50%")]
)
def test_a_reserve_without_room_is_refused(
    count: int, max_unavailable: int | str, reserve: int | str
) -> None:
    assert [r.code for r in rolled(count, max_unavailable, reserve).refusals] == ["budget.reserve"]


@pytest.mark.parametrize(
    ("bound", "count", "nodes"),
    [
        ("30%", 10, 3),
        ("25%", 3, 0),
        ("25%", 4, 1),
        ("100%", 7, 7),
        ("0%", 5, 0),
        (2, 5, 2),
        (9, 5, 5),
        ("33%", 3, 0),
    ],
)
def test_bounds_round_down(bound: int | str, count: int, nodes: int) -> None:
    assert resolve(bound, count) == nodes

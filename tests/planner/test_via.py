"""A path of declared pairs, planned as rollouts one after the other: each starts from what the last one leaves."""

from __future__ import annotations

from typing import Any

import pytest

from manifests.errors import RefusedError
from manifests.manifest import Manifests
from planner.check import check
from planner.options import Options
from planner.plan import Plan
from planner.via import consecutive
from tests.planner.fleets import NOW, World, compatibility, fleet, manifests, release
from tests.planner.test_cases import suffer

TABLE = compatibility(
    ("1.0.0", "1.1.0", "full"), ("1.1.0", "1.2.0", "rolling"), ("1.2.0", "2.0.0", "rolling", "rolling")
)


def world() -> World:
    start = World()
    start.reach(manifests(fleet("1.0.0"), compat=[TABLE]))
    return start


def wanted(version: str = "2.0.0", **values: Any) -> Manifests:
    return manifests(fleet(version), compat=[TABLE], **values)


def via(start: World, target: Manifests, **options: Any) -> tuple[Plan, ...]:
    return consecutive(target, start.snapshot(), start.ledger(), Options(**options), NOW, {}, "hello")


def test_every_stop_is_a_plan_and_the_last_leaves_nothing_to_do() -> None:
    start = world()
    plans = via(start, wanted(), accept_downtime=True)
    assert [p.fleets[0].rollout.strategy for p in plans] == ["full", "rolling", "rolling"]
    assert [p.fleets[0].changes[0].generation for p in plans] == [2, 3, 4]
    for plan in plans:
        assert check(plan) == []
        start.apply(plan)
    assert start.plan(wanted()).empty


def test_each_plan_is_the_one_that_would_be_made_there_and_then() -> None:
    """So its preconditions are met when the plan before it has been carried out."""
    start = world()
    first, second, _ = via(start, wanted(), accept_downtime=True)
    start.apply(first)
    there = start.plan(wanted("1.2.0"), accept_downtime=True)
    assert there.fleets[0].steps == second.fleets[0].steps


def test_it_stops_at_what_is_refused() -> None:
    plans = via(world(), wanted())
    assert [p.refused for p in plans] == [True]
    assert [r.code for r in plans[0].fleets[0].refusals] == ["compat.full"]


def test_a_direct_way_is_one_plan() -> None:
    start = world()
    assert via(start, wanted("1.1.0")) == (start.plan(wanted("1.1.0"), fleets=("hello",)),)


def test_a_fleet_left_half_way_goes_on_from_the_first_stop() -> None:
    start = world()
    suffer(start, {"web-0": "runs 1.1.0"})
    plans = via(start, wanted("1.2.0"), accept_downtime=True)
    assert [str(c.action) for c in plans[0].fleets[0].changes] == ["no-op", "replace", "replace"]


def test_nodes_that_are_not_on_one_path_are_refused() -> None:
    start = world()
    suffer(start, {"web-0": "runs 1.2.0"})
    with pytest.raises(RefusedError, match=r"1\.2\.0 is live beside 1\.0\.0"):
        via(start, wanted(), accept_downtime=True)


def test_no_path_is_refused() -> None:
    with pytest.raises(RefusedError, match="no path of declared pairs"):
        via(world(), manifests(fleet("2.0.0"), compat=[compatibility(("1.0.0", "1.1.0", "full"))]))


def test_a_missing_release_on_the_way_is_named() -> None:
    releases = [release(v) for v in ("1.0.0", "1.2.0", "2.0.0")]
    with pytest.raises(RefusedError, match=r"no Release of hello 1\.1\.0"):
        via(world(), wanted(releases=releases))

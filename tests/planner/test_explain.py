"""The rows that views print: what is lost comes first, a replaced node is a change, the sums add up."""

from __future__ import annotations

from planner.explain import rows, sums
from tests.planner.fleets import World, compatibility, fleet, group, manifests

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"), ("1.1.0", "2.0.0", "rolling", "never"))
ROLLOUT = {"max_unavailable": 1, "reserve": 1}


def world(count: int = 3) -> World:
    start = World()
    start.reach(manifests(fleet("1.0.0", group(count=count), rollout=ROLLOUT), compat=[TABLE]))
    return start


def test_an_upgrade_in_one_sentence() -> None:
    plan = world().plan(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[TABLE]))
    assert str(sums(plan)) == "0 to add, 3 to change, 0 to destroy"
    assert rows(plan)[0].availability == ("Availability: never below 2 of 3 (floor 2, reserve 1).",)
    row = rows(plan)[0].changes[0]
    assert (row.address, row.heading) == ("node/hello/web-0", "will be replaced: 1.0.0 -> 1.1.0")
    assert [(r.words, r.before, r.after) for r in row.reasons] == [("release.version", "1.0.0", "1.1.0")]


def test_destroys_come_first_and_lost_data_is_said() -> None:
    start = World()
    body = group(count=4, data={"retain": False})
    start.reach(manifests(fleet("1.0.0", body, rollout=ROLLOUT), compat=[TABLE]))
    plan = start.plan(manifests(fleet("1.1.0", {**body, "count": 3}, rollout=ROLLOUT), compat=[TABLE]))
    shown = rows(plan)[0].changes
    assert [r.action for r in shown] == ["destroy", "replace", "replace", "replace"]
    assert shown[0].heading == "will be destroyed, and its data with it"
    assert str(sums(plan)) == "0 to add, 3 to change, 1 to destroy"


def test_an_edge_that_cannot_be_undone_is_shown() -> None:
    start = world()
    start.reach(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[TABLE]))
    plan = start.plan(manifests(fleet("2.0.0", rollout=ROLLOUT), compat=[TABLE]))
    assert rows(plan)[0].no_return == ("hello 1.1.0 -> 2.0.0",)
    assert rows(plan)[0].no_return_at == "node/hello/web-0"
    first = plan.fleets[0].steps[plan.fleets[0].no_return or 0]
    assert (first.kind, first.node) == ("start", "web-0")


def test_nothing_to_do_has_no_rows() -> None:
    plan = world().plan(manifests(fleet("1.0.0", rollout=ROLLOUT), compat=[TABLE]))
    assert (rows(plan)[0].changes, rows(plan)[0].availability) == ((), ())
    assert str(sums(plan)) == "0 to add, 0 to change, 0 to destroy"

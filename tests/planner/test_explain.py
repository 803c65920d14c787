"""The rows that views print: what is lost comes first, a replaced node is a change, the sums add up."""

from __future__ import annotations

from planner.explain import one_by_one, rows, sums
from tests.planner.fleets import World, compatibility, fleet, group, manifests

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"), ("1.1.0", "2.0.0", "rolling", "never"))
ROLLOUT = {"max_unavailable": 1, "reserve": 1}


def world(count: int = 3) -> World:
    start = World()
    start.reach(manifests(fleet("1.0.0", group(count=count), rollout=ROLLOUT), compat=[TABLE]))
    return start


def test_an_upgrade_in_one_row() -> None:
    plan = world().plan(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[TABLE]))
    assert str(sums(plan)) == "0 to add, 3 to change, 0 to destroy"
    (found,) = rows(plan)
    assert (found.strategy, found.window, found.proven) == ("rolling", 1, True)
    assert [(b.minimum, b.count) for b in found.budgets] == [(2, 3)]
    (row,) = found.changes
    assert (row.action, row.nodes, row.hosts) == ("replace", ("web-0", "web-1", "web-2"), ("localhost",) * 3)
    assert (row.before, row.after) == ("1.0.0", "1.1.0")
    assert [(r.field, r.before, r.after) for r in row.reasons] == [("release.version", "1.0.0", "1.1.0")]
    assert [one.nodes for one in one_by_one(row)] == [("web-0",), ("web-1",), ("web-2",)]


def test_destroys_come_first_and_lost_data_is_said() -> None:
    start = World()
    body = group(count=4, data={"retain": False})
    start.reach(manifests(fleet("1.0.0", body, rollout=ROLLOUT), compat=[TABLE]))
    plan = start.plan(manifests(fleet("1.1.0", {**body, "count": 3}, rollout=ROLLOUT), compat=[TABLE]))
    (found,) = rows(plan)
    assert [r.action for r in found.changes] == ["destroy", "replace"]
    assert [(loss.kind, loss.nodes) for loss in found.losses] == [("data", ("web-3",))]
    assert found.changes[0].data_lost
    assert str(sums(plan)) == "0 to add, 3 to change, 1 to destroy"


def test_volumes_of_an_image_that_may_go_are_a_loss() -> None:
    start = World()
    body = group(
        count=3, substrate="docker", container={"lose_anonymous_volumes": True}, hosts=("localhost",)
    )
    start.reach(manifests(fleet("1.0.0", body, rollout=ROLLOUT), compat=[TABLE]))
    plan = start.plan(manifests(fleet("1.1.0", body, rollout=ROLLOUT), compat=[TABLE]))
    assert [(loss.kind, loss.nodes) for loss in rows(plan)[0].losses] == [
        ("anonymous-volumes", ("web-0", "web-1", "web-2"))
    ]


def test_an_edge_that_cannot_be_undone_is_shown() -> None:
    start = world()
    start.reach(manifests(fleet("1.1.0", rollout=ROLLOUT), compat=[TABLE]))
    plan = start.plan(manifests(fleet("2.0.0", rollout=ROLLOUT), compat=[TABLE]))
    (found,) = rows(plan)
    assert [(v.product, v.from_, v.to) for v in found.no_return] == [("hello", "1.1.0", "2.0.0")]
    assert found.no_return_at == "web-0"
    first = plan.fleets[0].steps[plan.fleets[0].no_return or 0]
    assert (first.kind, first.node) == ("start", "web-0")


def test_nothing_to_do_has_no_rows() -> None:
    plan = world().plan(manifests(fleet("1.0.0", rollout=ROLLOUT), compat=[TABLE]))
    (found,) = rows(plan)
    assert (found.changes, found.unchanged, found.proven, found.empty) == ((), 3, False, True)
    assert str(sums(plan)) == "0 to add, 0 to change, 0 to destroy"

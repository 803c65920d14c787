"""A node that was moved to another name is the node it was, and its old name is free."""

from __future__ import annotations

from dataclasses import replace

from manifests.manifest import Manifests
from planner.change import Action
from tests.planner.fleets import World, fleet, group, manifests


def wanted(*names: str) -> Manifests:
    return manifests(fleet("1.0.0", group(nodes=tuple({"name": n} for n in names), hosts=("localhost",))))


def moved(start: World, before: str, after: str) -> World:
    """The ledger's word; on the host nothing changes."""
    nodes = start.recorded["hello"]
    uid = next(u for u, n in nodes.items() if n.name == before)
    nodes[uid] = replace(nodes[uid], name=after)
    return start


def test_the_plan_is_empty_once_the_manifest_has_the_new_name() -> None:
    start = moved(World().reach(wanted("a", "b")), "a", "c")
    assert start.plan(wanted("c", "b")).empty
    assert start.plan(wanted("b", "c")).empty, "order means nothing"


def test_the_old_name_is_free_for_another_node() -> None:
    """What is seen under the old name is another node, and is not taken for the new one."""
    start = moved(World().reach(wanted("a")), "a", "b")
    (plan,) = start.plan(wanted("b", "a")).fleets
    by_name = {c.node: c for c in plan.changes}
    assert (by_name["b"].action, by_name["a"].action) == (Action.NOOP, Action.CREATE)
    assert by_name["a"].uid not in start.nodes
    start.reach(wanted("b", "a"))
    assert len(start.nodes) == 2
    assert start.plan(wanted("b", "a")).empty


def test_names_that_were_exchanged_stay_with_their_nodes() -> None:
    start = World().reach(wanted("a", "b"))
    for before, after in (("a", "x"), ("b", "a"), ("x", "b")):
        moved(start, before, after)
    assert start.plan(wanted("a", "b")).empty

"""What a plan loses is said of every node that ends, and of no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from manifests.manifest import Manifests
from planner.change import Action
from planner.endings import KEPT, NONE, REMOVED, endings
from tests.planner.fleets import World, compatibility, fleet, group, manifests


def wanted(count: int, data: dict[str, object] | None = None, version: str = "1.0.0") -> Manifests:
    body = group(count=count) if data is None else group(count=count, data=data)
    pairs = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    return manifests(fleet(version, body), compat=[pairs])


def test_a_node_that_ends_says_what_becomes_of_its_data() -> None:
    for data, what, lost in (
        (None, NONE, False),
        ({"retain": True}, KEPT, False),
        ({"retain": False}, REMOVED, True),
    ):
        start = World().reach(wanted(2, data))
        (one,) = endings(start.plan(wanted(1, data)))
        assert (one.node, one.generation, one.host, one.version) == ("web-1", 1, "localhost", "1.0.0")
        assert (one.what, one.lost, one.ends) == (what, lost, True)


def test_what_is_lost_for_good_stands_first() -> None:
    start = World()
    body = [group("keep", 2, data={"retain": True}), group("lose", 2, data={"retain": False}, port=18200)]
    start.reach(manifests(fleet("1.0.0", *body)))
    found = endings(start.plan(manifests(fleet("1.0.0", *body)), destroy=True))
    assert [e.lost for e in found] == [True, True, False, False]


@given(st.integers(1, 4), st.integers(0, 4), st.sampled_from(["1.0.0", "1.1.0"]), st.booleans())
def test_endings_are_exactly_the_nodes_that_end(before: int, after: int, version: str, destroy: bool) -> None:
    start = World().reach(wanted(before))
    plan = start.plan(wanted(after, version=version), destroy=destroy)
    ending = {c.uid for f in plan.fleets for c in f.changes if c.action is Action.DESTROY}
    assert {e.uid for e in endings(plan)} == ending

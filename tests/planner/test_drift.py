"""Drift is what somebody else did: never what the manifests want next, and never what was not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from manifests.manifest import Manifests
from planner.drift import Drifted, FleetDrift, drift
from planner.observed import NodeState
from tests.planner.fleets import World, compatibility, fleet, group, host, manifests


def wanted(version: str = "1.0.0", count: int = 3, **process: Any) -> Manifests:
    body = group(count=count, hosts=("h1", "h2"))
    body["process"] = body["process"] | process
    pairs = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    return manifests(fleet(version, body), hosts=[host("h1"), host("h2")], compat=[pairs])


def world() -> World:
    return World("h1", "h2").reach(wanted())


def found(start: World, docs: Manifests) -> FleetDrift:
    (one,) = drift(docs, start.snapshot(), start.ledger(), start.secrets)
    return one


def only(start: World, docs: Manifests | None = None) -> Drifted:
    (one,) = found(start, docs or wanted()).drifted
    return one


def uid(start: World, name: str) -> str:
    return next(n.uid for n in start.nodes.values() if n.name == name)


def test_what_was_applied_is_no_drift() -> None:
    assert found(world(), wanted()) == FleetDrift("hello", (), (), {}, ())


def test_what_the_manifests_want_next_is_pending_and_no_drift() -> None:
    more = found(world(), wanted("1.1.0", count=4))
    assert (more.drifted, more.pending) == ((), ("web-0", "web-1", "web-2", "web-3"))
    assert found(world(), wanted(count=2)).pending == ("web-2",)
    assert found(World("h1", "h2"), wanted()).pending == ("web-0", "web-1", "web-2")


def test_a_value_that_was_changed_by_hand_is_shown_from_recorded_to_there() -> None:
    start = World("h1", "h2").reach(wanted(env={"A": "1"}))
    start.nodes[uid(start, "web-1")].values["env.A"] = "2"
    one = only(start, wanted(env={"A": "1"}))
    assert (one.node, one.kind) == ("web-1", "changed")
    assert [(r.field, r.before, r.after) for r in one.reasons] == [("env.A", "1", "2")]


def test_drift_towards_what_is_wanted_is_drift_and_pending() -> None:
    start = World("h1", "h2").reach(wanted(env={"A": "1"}))
    start.nodes[uid(start, "web-1")].values["env.A"] = "2"
    both = found(start, wanted(env={"A": "2"}))
    assert [d.node for d in both.drifted] == ["web-1"]
    assert both.pending == ("web-0", "web-1", "web-2")


def test_gone_strange_returned_and_moved() -> None:
    start = world()
    gone = start.nodes.pop(uid(start, "web-0"))
    assert (only(start).kind, only(start).node) == ("gone", "web-0")
    start.nodes["other"] = replace(gone, uid="other", name="guest", lineage="theirs")
    assert [(d.node, d.kind) for d in found(start, wanted()).drifted] == [
        ("guest", "stranger"),
        ("web-0", "gone"),
    ]

    start = world()
    start.recorded["hello"][uid(start, "web-2")] = replace(
        start.recorded["hello"][uid(start, "web-2")], destroyed=True
    )
    assert only(start).kind == "returned"

    start = world()
    start.nodes[uid(start, "web-2")].generation += 1
    assert (only(start).kind, [(r.before, r.after) for r in only(start).reasons]) == ("foreign", [("1", "2")])
    start.nodes[uid(start, "web-2")].lineage = "theirs"
    assert [r.field for r in only(start).reasons] == ["lineage", "generation"]


def test_a_process_that_ended_is_drift_and_one_that_fleetctl_stopped_is_not() -> None:
    start = world()
    start.nodes[uid(start, "web-0")].state = NodeState.STOPPED
    assert found(start, wanted()).drifted == ()
    start.nodes[uid(start, "web-0")].state = NodeState.EXITED
    assert [r.field for r in only(start).reasons] == ["state"]


def test_other_bytes_are_drift() -> None:
    start = world()
    node = start.nodes[uid(start, "web-0")]
    other = wanted("1.1.0").releases["hello", "1.1.0"].artifacts[0]
    node.spec = node.spec.model_copy(
        update={
            "version": "1.1.0",
            "artifact": node.spec.artifact.model_copy(update={"digest": other.digest}),
        }
    )
    assert [(r.code, r.before, r.after) for r in only(start).reasons] == [("release", "1.0.0", "1.1.0")]


def test_what_was_not_seen_is_neither_gone_nor_well() -> None:
    start = world()
    start.unreachable.add("h1")
    some = found(start, wanted())
    assert (some.drifted, some.unseen) == ((), {"h1": ("web-0", "web-2")})


@given(
    st.lists(
        st.builds(
            wanted,
            st.sampled_from(["1.0.0", "1.1.0"]),
            st.integers(1, 5),
            env=st.dictionaries(st.sampled_from("AB"), st.sampled_from("12"), max_size=2),
        ),
        min_size=1,
        max_size=4,
    ),
    st.builds(wanted, st.sampled_from(["1.0.0", "1.1.0"]), st.integers(1, 5)),
)
def test_where_only_fleetctl_acted_there_is_never_drift(steps: list[Manifests], then: Manifests) -> None:
    start = World("h1", "h2")
    for step in steps:
        start.reach(step)
    assert found(start, steps[-1]).drifted == ()
    assert found(start, steps[-1]).pending == ()
    assert found(start, then).drifted == ()

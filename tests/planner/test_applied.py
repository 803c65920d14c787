"""The world in which manifests are applied: nothing is left to do there, and plans from it are plans from the real one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import ManifestError
from manifests.manifest import Manifests
from planner.applied import applied
from planner.explain import rows
from planner.last_seen import as_observed, as_recorded
from planner.make import make
from planner.options import Options
from planner.plan import Plan
from planner.review import compare
from tests.planner.fleets import NOW, World, compatibility, fleet, group, host, manifests, release

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"), ("1.1.0", "2.0.0", "rolling", "never"))
ROLLOUT = {"max_unavailable": 1, "reserve": 1}
SECRET = {
    "command": ("run", "{{ node.port }}"),
    "env": {"TOKEN": {"secret": "env:T"}, "NAME": "{{ node.name }}"},
}


def wanted(version: str, *groups: dict[str, Any], **values: Any) -> Manifests:
    return manifests(
        fleet(version, *groups, rollout=values.pop("rollout", ROLLOUT)), compat=[TABLE], **values
    )


def from_there(base: Manifests, head: Manifests, **options: Any) -> Plan:
    observed, recorded = applied(base, head, NOW)
    return make(head, observed, recorded, Options(**options), NOW, {})


SHAPES = {
    "counted": [group(count=4)],
    "named": [group(nodes=({"name": "a", "port": 9000}, {"name": "b", "labels": {"x": "y"}}))],
    "containers": [group(substrate="docker", container={"init": True}, data={"path": "data"})],
    "machines": [group(substrate="qemu", domain={})],
    "secrets": [group(process=SECRET)],
    "two groups": [group(count=2), group("api", count=3, hosts=("h1", "localhost"), port=9000)],
    "nothing": [group(count=0)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_applied_needs_nothing(shape: str) -> None:
    there = wanted("1.0.0", *SHAPES[shape], hosts=[host("h1")], rollout={})
    plan = from_there(there, there)
    assert plan.empty
    assert [f.warnings for f in plan.fleets] == [()]


counts = st.integers(0, 5)
versions = st.sampled_from(["1.0.0", "1.1.0", "1.2.0", "2.0.0"])


@given(counts, counts, versions, versions, st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_plan_from_there_is_the_plan_from_a_world_that_was_really_applied(
    before: int, after: int, old: str, new: str, accept: bool
) -> None:
    """The same changes, steps, verdicts, refusals and proof; only whose world it is differs."""
    base = wanted(old, group(count=before), rollout={})
    head = wanted(new, group(count=after), rollout={})
    world = World()
    world.reach(base)
    real = world.plan(head, accept_downtime=accept)
    supposed = from_there(base, head, accept_downtime=accept)
    differs = {"lineage": None, "serial": 0, "observed_at": ""}
    assert [f.model_copy(update=differs) for f in supposed.fleets] == [
        f.model_copy(update=differs) for f in real.fleets
    ]


def test_a_release_for_some_architectures_needs_no_host_that_says_which() -> None:
    """One is assumed that both releases are made for; without any in common, it is refused as a plan would."""
    both = [release("1.0.0", arch="aarch64"), release("1.1.0", arch="aarch64")]
    base, head = wanted("1.0.0", releases=both), wanted("1.1.0", releases=both)
    assert not from_there(base, head).refused
    mixed = [release("1.0.0", arch="aarch64"), release("1.1.0", arch="x86_64")]
    plan = from_there(wanted("1.0.0", releases=mixed), wanted("1.1.0", releases=mixed))
    assert {r.code for f in plan.fleets for r in f.refusals} == {"artifact.unknown-architecture"}


def test_a_base_that_cannot_be_placed_says_why() -> None:
    with pytest.raises(ManifestError) as caught:
        applied(wanted("9.9.9"), wanted("1.0.0"), NOW)
    assert caught.value.diagnostics[0].code == "release.unknown"


def test_a_fleet_that_is_let_go_is_said_and_its_nodes_are_not_destroyed() -> None:
    other = fleet("1.0.0", group("db", count=2, port=9000), name="other", rollout={})
    base = manifests(fleet("1.0.0", rollout=ROLLOUT), other, compat=[TABLE])
    head = wanted("1.0.0")
    review, plan = compare(base, head, applied(base, head, NOW), Options(), NOW)
    assert plan.empty
    assert [(row.fleet, row.nodes) for row in review.left] == [("other", 2)]
    assert [(d.kind, d.name, d.change) for d in review.documents] == [("Fleet", "other", "removed")]
    assert review.changes


def test_the_same_manifests_differ_in_nothing() -> None:
    there = wanted("1.0.0")
    review, _ = compare(there, there, applied(there, there, NOW), Options(), NOW)
    assert not review.changes
    assert (review.documents, review.pins, review.secrets, review.left) == ((), (), (), ())


# As last seen


def test_a_state_alone_is_a_fleet_that_is_well() -> None:
    world = World()
    world.reach(wanted("1.0.0", group(count=3)))
    head = wanted("1.1.0", group(count=4))
    plan = make(head, as_recorded(world.ledger(), head, NOW), world.ledger(), Options(), NOW, {})
    (found,) = rows(plan)
    assert [(r.action, len(r.nodes)) for r in found.changes] == [("replace", 3), ("create", 1)]
    assert found.drifted == ()


def test_a_snapshot_alone_is_read_as_if_its_nodes_were_ours() -> None:
    """No lineage stands in the way, sticky ports are kept, and what nobody declares is destroyed."""
    world = World()
    world.reach(wanted("1.0.0", group(count=4)))
    next(iter(world.nodes.values())).values["env.ADDED"] = "by hand"
    head = wanted("1.1.0", group(count=3))
    plan = make(head, world.snapshot(), as_observed(world.snapshot(), head), Options(), NOW, {})
    (found,) = rows(plan)
    assert found.refusals == ()
    assert {(r.action.value, len(r.nodes)) for r in found.changes} == {
        ("replace", 1),
        ("replace", 2),
        ("destroy", 1),
    }
    fields = {reason.field for row in found.changes for reason in row.reasons}
    assert {"release.version", "env.ADDED"} <= fields


def test_nothing_seen_and_nothing_recorded_is_a_fleet_to_create() -> None:
    head = wanted("1.0.0")
    recorded = as_observed(World().snapshot(), head)
    assert recorded["hello"].lineage is None
    plan = make(head, as_recorded(recorded, head, NOW), recorded, Options(), NOW, {})
    assert [(r.action, len(r.nodes)) for r in rows(plan)[0].changes] == [("create", 3)]

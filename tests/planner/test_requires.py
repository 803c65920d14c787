"""Order between fleets, and gates across products."""

from __future__ import annotations

import pytest

from manifests.errors import ManifestError
from manifests.manifest import Manifests
from planner.check import check
from tests.planner.fleets import World, compatibility, fleet, group, manifests, release

PAIRS = [
    compatibility(("1.0.0", "1.1.0", "rolling", "rolling")),
    compatibility(("1.0.0", "1.1.0", "rolling", "rolling"), product="store"),
]
RELEASES = [release(v, p) for v in ("1.0.0", "1.1.0", "2.0.0") for p in ("hello", "store")]


def wanted(web: str, store: str, *, accepts: tuple[str, ...] = ("1.1.0",), first: str = "web") -> Manifests:
    """A web fleet that requires a store; `first` is the one that is written first."""
    front = fleet(web, name="web", requires=({"fleet": "store", "versions": accepts},))
    pin = {"product": "store", "version": store}
    body = group("db", 2, port=19000)
    back = fleet(store, body, name="store", release=pin)
    return manifests(*((front, back) if first == "web" else (back, front)), releases=RELEASES, compat=PAIRS)


def test_a_required_fleet_goes_first_wherever_it_is_written() -> None:
    for first in ("web", "store"):
        plan = World().plan(wanted("1.0.0", "1.1.0", first=first))
        assert [f.fleet for f in plan.fleets] == ["store", "web"]
        assert not plan.refused
        assert check(plan) == []


def test_a_version_that_does_not_fit_is_refused() -> None:
    plan = World().plan(wanted("1.0.0", "1.0.0"))
    refused = {f.fleet: [r.code for r in f.refusals] for f in plan.fleets}
    assert refused == {"store": [], "web": ["requires.unmet"]}


def test_a_required_fleet_that_was_not_chosen_counts_as_it_is() -> None:
    world = World()
    world.reach(wanted("1.0.0", "1.0.0", accepts=("1.0.0",)))
    both = wanted("1.1.0", "1.1.0")
    alone = world.plan(both, fleets=("web",))
    assert [f.fleet for f in alone.fleets] == ["web"]
    assert [r.code for r in alone.fleets[0].refusals] == ["requires.unmet"]
    assert not world.plan(both).refused


def test_what_is_not_moved_needs_no_fit() -> None:
    world = World()
    world.reach(wanted("1.0.0", "1.0.0", accepts=("1.0.0",)))
    plan = world.plan(wanted("1.0.0", "1.0.0", accepts=("1.1.0",)))
    assert plan.empty


def test_a_refused_plan_of_a_required_fleet_refuses_this_one() -> None:
    world = World()
    world.reach(wanted("1.0.0", "1.1.0"))
    plan = world.plan(wanted("1.1.0", "2.0.0", accepts=("1.1.0", "2.0.0")))
    refused = {f.fleet: [r.code for r in f.refusals] for f in plan.fleets}
    assert refused == {"store": ["compat.unknown"], "web": ["requires.unmet"]}


def test_a_fleet_that_is_not_declared_cannot_be_required() -> None:
    front = fleet("1.0.0", name="web", requires=({"fleet": "store", "versions": ("1.0.0",)},))
    plan = World().plan(manifests(front))
    assert [r.code for r in plan.fleets[0].refusals] == ["requires.unknown-fleet"]


def test_a_ring_is_an_error() -> None:
    one = fleet("1.0.0", name="one", requires=({"fleet": "two", "versions": ("1.0.0",)},))
    two = fleet("1.0.0", group(port=19000), name="two", requires=({"fleet": "one", "versions": ("1.0.0",)},))
    with pytest.raises(ManifestError) as caught:
        World().plan(manifests(one, two))
    assert [d.code for d in caught.value.diagnostics] == ["requires.ring"]

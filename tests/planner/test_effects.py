"""Two plans have the same effects exactly when carrying them out does the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from manifests.manifest import Manifests
from manifests.schema.release import Release
from planner.effects import differences, effects, effects_digest
from planner.make import make
from planner.observed import HealthState
from planner.options import Options
from planner.plan import Plan
from tests.planner.fleets import NOW, World, compatibility, fleet, group, host, manifests, release

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
SECRET = "file:/somewhere/token"


def wanted(version: str = "1.1.0", secret: str = SECRET, **values: Any) -> Manifests:
    process = {
        "command": ("serve", "{{ node.port }}"),
        "env": {"A": values.pop("env", "1"), "TOKEN": {"secret": secret}},
    }
    rollout = values.pop("rollout", {"max_unavailable": 1, "reserve": 1})
    hosts = values.pop("hosts", [host("localhost")])
    releases = values.pop("releases", None)
    table = values.pop("table", TABLE)
    made = fleet(version, group(process=process, **values), rollout=rollout)
    return manifests(made, compat=[table], hosts=hosts, releases=releases)


def running() -> World:
    return World().reach(wanted("1.0.0"))


def moved(folder: str) -> list[Release]:
    """The releases with their artifacts in another folder."""
    return [
        r.model_copy(
            update={
                "artifacts": tuple(
                    a.model_copy(update={"source": a.source.replace("/src", folder)}) for a in r.artifacts
                )
            }
        )
        for r in (release("1.0.0"), release("1.1.0"))
    ]


def plan_of(world: World, made: Manifests, now: str = NOW, **options: Any) -> Plan:
    return make(made, world.snapshot(), world.ledger(), Options(**options), now, world.secrets)


APPROVED = plan_of(running(), wanted())


def test_the_same_is_the_same() -> None:
    other = plan_of(running(), wanted())
    assert differences(APPROVED, other) == ()
    assert effects_digest(other) == effects_digest(APPROVED)


@pytest.mark.parametrize(
    "change",
    [
        {"releases": moved("/elsewhere")},
        {"secret": "file:/another/checkout/token"},
        {"hosts": [host("localhost", labels={})]},
        {"table": compatibility({"from": "1.0.0", "to": "1.1.0", "mode": "rolling", "reverse": "rolling", "reason": "other words"})},
    ],
    ids=["artifacts elsewhere", "a secret's file elsewhere", "a host in other words", "another reason"],
)  # fmt: skip
def test_what_does_nothing_else_is_not_bound(change: dict[str, Any]) -> None:
    other = plan_of(running(), wanted(**change), now="2031-05-05T05:05:05Z")
    assert other.plan_id != APPROVED.plan_id
    assert differences(APPROVED, other) == ()


def test_a_state_that_went_on_elsewhere_is_not_bound() -> None:
    """Newer entries in the journal change the serial, and nothing that is done."""
    world = running()
    world.serial += 7
    other = plan_of(world, wanted())
    assert other.fleets[0].serial == APPROVED.fleets[0].serial + 7
    assert differences(APPROVED, other) == ()


def _worsened(world: World) -> None:
    node = next(n for n in world.nodes.values() if n.name == "web-1")
    node.health = HealthState.FAILING


def _moved_on(world: World) -> None:
    for uid, node in world.nodes.items():
        node.generation += 1
        world.recorded["hello"][uid] = replace(world.recorded["hello"][uid], generation=node.generation)


def _by_hand(world: World) -> None:
    next(iter(world.nodes.values())).values["env.A"] = "by hand"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"env": "2"}, "specs.env.A"),
        ({"count": 2, "rollout": {"max_unavailable": 1}}, "change"),
        ({"secret": "file:/somewhere/other"}, "specs.env.TOKEN.secret"),
        ({"health": {"tcp": {}, "deadline": "7s"}}, "specs.health.deadline"),
        ({"releases": [release("1.0.0"), release("1.1.0", build="x")]}, "after.digest"),
        ({"rollout": {"max_unavailable": 1}}, "budgets.fleet.reserve"),
        ({"rollout": {"max_unavailable": 1, "reserve": 1, "auto_revert": True}}, "rollout.auto_revert"),
        ({"rollout": {"max_unavailable": 1, "reserve": 1, "canary": {"count": 1}}}, "rollout.canary_phase"),
        ({"hosts": [host("localhost", ssh={"address": "other.example"})]}, "hosts.localhost.ssh"),
        ({"hosts": [host("localhost", root="/other")]}, "hosts.localhost.root"),
        ({"table": compatibility(("1.0.0", "1.1.0", "rolling", "never"))}, "verdicts.hello 1.0.0 -> 1.1.0.reverse"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_what_does_something_else_is_told(change: dict[str, Any], what: str) -> None:
    other = plan_of(running(), wanted(**change))
    assert not other.refused
    found = differences(APPROVED, other)
    assert what in {d.what for d in found}
    assert effects_digest(other) != effects_digest(APPROVED)
    assert all(d.approved != d.present for d in found)


@pytest.mark.parametrize("happened", [_worsened, _moved_on, _by_hand], ids=lambda f: f.__name__)
def test_targets_that_changed_are_other_preconditions(happened: Callable[[World], None]) -> None:
    world = running()
    happened(world)
    assert differences(APPROVED, plan_of(world, wanted())) != ()


def test_a_target_left_out_is_told_and_so_is_accepted_downtime() -> None:
    one = plan_of(running(), wanted(), targets=_target("web-1"))
    assert {(d.address, d.present) for d in differences(APPROVED, one) if d.what == "change"} == {
        ("node/hello/web-0", None),
        ("node/hello/web-2", None),
    }
    full = {"rollout": {"max_unavailable": 1, "reserve": 1, "strategy": "full"}}
    accepted = plan_of(running(), wanted(**full), accept_downtime=True)
    assert {"rollout.accept_downtime", "rollout.strategy"} <= {
        d.what for d in differences(APPROVED, accepted)
    }


def _target(name: str) -> tuple[Any, ...]:
    from manifests.address import NodeAddress

    return (NodeAddress("hello", name),)


def test_naming_every_target_is_the_same_as_naming_none() -> None:
    named = plan_of(running(), wanted(), targets=tuple(t for n in range(3) for t in _target(f"web-{n}")))
    assert named.plan_id != APPROVED.plan_id
    assert differences(APPROVED, named) == ()


def test_a_fleet_of_another_state_is_another_fleet() -> None:
    ledger = {n: replace(r, lineage="another") for n, r in running().ledger().items()}
    world = running()
    for node in world.nodes.values():
        node.lineage = "another"
    other = make(wanted(), world.snapshot(), ledger, Options(), NOW, {})
    assert "lineage" in {d.what for d in differences(APPROVED, other)}


def test_a_plan_without_steps_has_no_effects() -> None:
    done = running()
    nothing = plan_of(done, wanted("1.0.0"))
    assert effects(nothing) == {}
    refused = plan_of(done, wanted("2.0.0"))
    assert refused.refused
    assert effects(refused) == {}
    assert {d.present for d in differences(APPROVED, nothing)} == {None}


def test_no_secret_and_no_folder_of_this_machine_is_in_the_effects() -> None:
    text = str(effects(APPROVED))
    assert "/somewhere" not in text
    assert "/src/" not in text

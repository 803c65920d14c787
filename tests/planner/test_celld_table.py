"""The celld table that ships: every row by what a plan says of it, and the refusals one by one."""

from __future__ import annotations

from typing import Any

import pytest

from manifests.manifest import Manifests
from manifests.shipped import tables, with_tables
from planner.plan import FleetPlan
from tests.planner.fleets import World, compatibility, fleet, group, manifests, release

VERSIONS = ("0.1.0", "0.2.0", "0.2.1", "0.3.0", "0.4.0", "0.4.1", "0.5.0", "0.5.1", "0.6.0")
ROWS: list[tuple[str, str, dict[str, str], str, str]] = [
    ("0.1.0", "0.2.0", {}, "full", "never"),
    ("0.1.0", "0.2.0", {"CELLD_LTX_COMPACTION": "0"}, "full", "full"),
    ("0.2.0", "0.2.1", {}, "rolling", "never"),
    ("0.2.1", "0.3.0", {}, "rolling", "evidence"),
    ("0.3.0", "0.4.0", {}, "full", "never"),
    ("0.4.0", "0.4.1", {}, "rolling", "never"),
    ("0.4.1", "0.5.0", {}, "rolling", "never"),
    ("0.5.0", "0.5.1", {}, "rolling", "never"),
    ("0.5.1", "0.6.0", {}, "full", "never"),
    ("0.5.1", "0.6.0", {"CELLD_DURABILITY": "bucket"}, "rolling", "never"),
]


# The rows over which data changes its format, so that a backup is mandatory.
FORMATS = [("0.1.0", "0.2.0"), ("0.3.0", "0.4.0"), ("0.4.0", "0.4.1"), ("0.5.1", "0.6.0")]
BACKUP = {"hooks": {"backup": ({"command": ("./save-bucket",)},)}}


def wanted(
    version: str, env: dict[str, Any], *, v: str = "", rollout: Any = BACKUP, **values: Any
) -> Manifests:
    body = group(process={"command": ("celld",), "env": env})
    pin = {"product": "celld", "version": v + version}
    docs = manifests(
        fleet(version, body, release=pin, rollout=dict(rollout)),
        releases=[release(v + x, "celld") for x in VERSIONS],
        **values,
    )
    return with_tables(docs)


def going(old: str, new: str, env: dict[str, Any], *, v: str = "", **options: Any) -> FleetPlan:
    world = World()
    world.reach(wanted(old, env, v=v))
    return world.plan(wanted(new, env, v=v), **options).fleets[0]


def test_every_row_has_its_source_and_its_reason() -> None:
    (table,) = tables(["celld"])
    assert all(pair.source and pair.reason for pair in table.pairs)
    assert len(table.pairs) == len(ROWS)


@pytest.mark.parametrize(("old", "new", "env", "mode", "reverse"), ROWS)
def test_each_row(old: str, new: str, env: dict[str, str], mode: str, reverse: str) -> None:
    plan = going(old, new, env)
    verdict = next(v for v in plan.verdicts if not v.together)
    assert (verdict.from_, verdict.to, verdict.mode, verdict.reverse) == (old, new, mode, reverse)
    assert verdict.place is not None
    assert verdict.place.startswith("fleetctl:tables/celld.yaml:")
    assert [r.code for r in plan.refusals] == ([] if mode == "rolling" else ["compat.full"])
    assert going(old, new, env, accept_downtime=True).rollout.strategy == mode


@pytest.mark.parametrize(("old", "new"), [("0.1.0", "0.2.1"), ("0.2.0", "0.3.0"), ("0.4.0", "0.5.0")])
def test_what_is_not_adjacent_is_unknown_and_its_path_is_shown(old: str, new: str) -> None:
    (refusal,) = going(old, new, {}).refusals
    assert refusal.code == "compat.unknown"
    assert f"declared is {old} -> " in refusal.detail


def test_a_path_of_several_stops_is_shown_whole() -> None:
    (refusal,) = going("0.1.0", "0.3.0", {}, v="v").refusals
    assert "v0.1.0 -> v0.2.0 (full) -> v0.2.1 (rolling) -> v0.3.0 (rolling)" in refusal.detail


@pytest.mark.parametrize(
    ("old", "new"), [("0.2.0", "0.1.0"), ("0.3.0", "0.2.1"), ("0.4.0", "0.3.0"), ("0.4.1", "0.4.0")]
)
def test_ways_back_that_are_closed_are_refused_with_downtime_too(old: str, new: str) -> None:
    assert [r.code for r in going(old, new, {}, accept_downtime=True).refusals] == ["compat.refuse"]


@pytest.mark.parametrize(
    ("old", "new", "name", "code"),
    [
        ("0.1.0", "0.2.0", "CELLD_WORKERS", "refused"),
        ("0.1.0", "0.2.0", "CELLD_HIBERNATIONS", "renamed"),
        ("0.4.1", "0.5.0", "CELLD_SHUTDOWN_DRAIN_MS", "refused"),
    ],
)
def test_variables_that_stop_the_new_version_stop_the_plan(old: str, new: str, name: str, code: str) -> None:
    refusals = going(old, new, {name: "1"}, accept_downtime=True).refusals
    assert [r.code for r in refusals] == [f"environment.{code}"]


def test_a_pair_of_the_manifests_goes_before_one_that_ships() -> None:
    own = compatibility(("0.3.0", "0.4.0", "rolling", "rolling"), product="celld")
    world = World()
    world.reach(wanted("0.3.0", {}))
    plan = world.plan(wanted("0.4.0", {}, compat=[own])).fleets[0]
    assert [(v.mode, v.reverse) for v in plan.verdicts if not v.together] == [("rolling", "rolling")]


def test_other_products_have_no_table() -> None:
    assert tables(["hello"]) == ()


@pytest.mark.parametrize(("old", "new", "env"), [(row[0], row[1], row[2]) for row in ROWS])
def test_rows_that_change_the_format_want_a_backup(old: str, new: str, env: dict[str, str]) -> None:
    world = World()
    world.reach(wanted(old, env, rollout={}))
    plan = world.plan(wanted(new, env, rollout={}), accept_downtime=True).fleets[0]
    changes = (old, new) in FORMATS and not env
    assert [r.code for r in plan.refusals] == (["compat.no-backup"] if changes else [])

"""The celld table and the manifests: it is there for its product, adds to what they declare, and gives way to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from manifests.load import load
from manifests.manifest import Manifests
from manifests.shipped import shipped
from planner.compat import Pairs
from planner.plan import FleetPlan
from tests.planner.fleets import World, fleet, group, manifests, release

TABLE = shipped("celld")
ROWS = TABLE.compatibility[0].pairs
RULES = TABLE.compatibility[0].environment
VERSIONS = sorted({v for r in ROWS for v in (r.from_, r.to)})
DOCUMENT = "api_version: fleetctl/v1\nkind: Compatibility\nproduct: celld\npairs:\n"


def celld(version: str, env: dict[str, str] | None = None) -> Manifests:
    body = group(process={"command": ("celld",), "env": env or {}})
    wanted = fleet(version, body, release={"product": "celld", "version": version})
    releases = [release(v, "celld") for v in VERSIONS]
    return manifests(wanted, releases=releases, compat=TABLE.compatibility, where=TABLE.where)


@pytest.mark.parametrize(("old", "new"), [(a, b) for a in VERSIONS for b in VERSIONS])
def test_whatever_no_row_names_is_unknown(old: str, new: str) -> None:
    known = {(r.from_, r.to) for r in ROWS} | {(r.to, r.from_) for r in ROWS}
    verdict = Pairs(TABLE, "celld").transition(old, new)
    assert (verdict.mode == "unknown") == ((old, new) not in known and old != new)


@pytest.mark.parametrize("rule", RULES, ids=[r.since for r in RULES])
def test_a_version_refuses_what_its_environment_schema_names(rule: object) -> None:
    """Each variable by itself stops the plan before anything is touched, and none stops the version before."""
    assert rule in RULES
    found = RULES[RULES.index(rule)]  # type: ignore[arg-type]
    before = VERSIONS[VERSIONS.index(found.since) - 1]
    for name in (*found.refuses, *found.renamed):
        plan = planned_new(found.since, name)
        assert [r.code.partition(".")[0] for r in plan.refusals] == ["environment"], name
        assert name in plan.refusals[0].detail
        assert planned_new(before, name).refusals == ()


def planned_new(version: str, variable: str) -> FleetPlan:
    (plan,) = World().plan(celld(version, {variable: "1"})).fleets
    return plan


def write(folder: Path, pairs: str) -> Manifests:
    path = folder / "pairs.yaml"
    path.write_text(DOCUMENT + pairs, encoding="utf-8")
    return load([path])


def test_the_table_is_loaded_for_its_product_and_a_manifest_adds_to_it(tmp_path: Path) -> None:
    found = Pairs(write(tmp_path, '  - {from: "0.6.0", to: "0.6.1", mode: rolling}\n'), "celld")
    assert found.transition("0.6.0", "0.6.1").mode == "rolling"
    assert found.transition("0.3.0", "0.4.0").mode == "full"
    assert found.last_place is not None
    assert found.last_place.startswith(str(tmp_path))


def test_a_manifest_may_declare_a_way_back_that_no_row_speaks_of(tmp_path: Path) -> None:
    found = Pairs(write(tmp_path, '  - {from: "0.5.1", to: "0.5.0", mode: rolling}\n'), "celld")
    assert found.transition("0.5.1", "0.5.0").mode == "rolling"


def test_a_pair_of_a_manifest_goes_before_the_table_and_has_its_own_place(tmp_path: Path) -> None:
    found = Pairs(write(tmp_path, '  - {from: "0.3.0", to: "0.4.0", mode: rolling}\n'), "celld")
    verdict = found.transition("0.3.0", "0.4.0")
    assert verdict.mode == "rolling"
    assert (verdict.place or "").startswith(str(tmp_path))


def test_nobody_is_told_to_add_a_line_to_what_ships() -> None:
    assert Pairs(TABLE, "celld").last_place is None

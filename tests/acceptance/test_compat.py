"""compat show and check, and plan --via: what is declared, where it stands, and the way round."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask


def test_a_product_that_ships_with_its_table_needs_no_manifest(workspace: Workspace, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    shown = workspace.ok("compat", "show", "celld", cwd=empty)
    assert "fleetctl:tables/celld.yaml:" in shown.out
    assert "node-log close: sealed epoch" in shown.out
    assert "CELLD_SHUTDOWN_DRAIN_MS" in shown.out
    rows = workspace.ok("compat", "show", "celld", "--format", "json", cwd=empty).json["pairs"]
    assert all(row["source"] and row["place"] for row in rows)
    refused = workspace.run("compat", "check", "0.3.0", "0.4.1", "--product", "celld", cwd=empty)
    assert refused.code == 3, str(refused)
    assert "declared is: 0.3.0 -> 0.4.0 (full) -> 0.4.1 (rolling)" in refused.out
    assert workspace.ok("compat", "check", "0.3.0", "0.4.0", "--product", "celld", cwd=empty).out.startswith(
        "celld 0.3.0 -> 0.4.0: full"
    )
    assert workspace.run("compat", "check", "0.4.1", "0.4.0", "--product", "celld", cwd=empty).code == 3
    assert workspace.run("compat", "show", "nothing", cwd=empty).code == 1


def test_the_manifests_pairs_have_their_place(workspace: Workspace) -> None:
    shown = workspace.ok("compat", "show", "hello", ".")
    assert "releases.yaml:" in shown.out
    checked = workspace.ok("compat", "check", "1.1.0", "1.0.0", ".", "--format", "json").json
    assert (checked["mode"], checked["reverse"]) == ("rolling", "rolling")
    assert "releases.yaml:" in checked["place"]
    assert workspace.run("compat", "check", "1.0.0", "2.0.0", ".").code == 3


def test_via_plans_the_declared_path_and_its_plans_are_applied_in_order(workspace: Workspace) -> None:
    workspace.pairs.append('{from: "1.1.0", to: "2.0.0", mode: rolling}')
    workspace.write_releases()
    workspace.apply()
    workspace.fleet("2.0.0")
    refused = workspace.run("plan", ".")
    assert refused.code == 3
    assert "declared is 1.0.0 -> 1.1.0 (rolling) -> 2.0.0 (rolling)" in refused.out
    planned = workspace.ok("plan", ".", "--via", "--out", "way.plan")
    assert "Rollout 2 of 2" in planned.out
    assert workspace.run("apply", "way.2.plan", "--auto-approve").code == 7, "the second one comes second"
    workspace.ok("apply", "way.1.plan", "--auto-approve")
    workspace.ok("apply", "way.2.plan", "--auto-approve")
    assert [ask(p) for p in workspace.ports] == ["2.0.0"] * 3
    assert workspace.ok("plan", ".").out.startswith("No changes.")

"""A fleet's life through the real command: from nothing, over versions and changes, and away again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.acceptance.cli import Workspace, wait_for
from tests.acceptance.client import Watch, ask


def pids(w: Workspace) -> list[str | None]:
    return [ask(p, "/pid") for p in w.ports]


def test_from_a_manifest_to_running_nodes_and_back_to_no_changes(workspace: Workspace) -> None:
    planned = workspace.ok("plan", ".")
    assert "Plan: 3 to add, 0 to change, 0 to destroy." in planned.out
    assert workspace.node_processes() == []
    assert not (workspace.path / ".fleetctl").exists(), "plan must create nothing"
    done = workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3, str(done)
    again = workspace.ok("plan", ".", "--detailed-exitcode")
    assert again.out.startswith("No changes."), str(again)
    before = pids(workspace)
    assert "No changes." in workspace.apply().out
    assert pids(workspace) == before, "apply without changes touched a node"


def test_nodes_outlive_the_command_and_carry_their_environment(workspace: Workspace) -> None:
    workspace.apply()
    assert [ask(p, "/greeting") for p in workspace.ports] == ["hello"] * 3
    status = workspace.ok("status", ".")
    assert "3 x 1.0.0; 3 of 3 available" in status.out, str(status)
    assert status.out.count("running") == 3
    machine = workspace.ok("status", ".", "--format", "json").json
    assert [n["available"] for n in machine["fleets"][0]["nodes"]] == [True] * 3


def test_a_rolling_upgrade_never_takes_more_than_one_down(workspace: Workspace) -> None:
    """Seen by a client outside, which asks every node all the time."""
    workspace.apply()
    workspace.fleet("1.1.0")
    assert "Availability: never below 2 of 3 (floor 2, reserve 1)." in workspace.ok("plan", ".").out
    with Watch(workspace.ports) as watch:
        workspace.apply()
    assert watch.most_down_at_once() == 1
    assert all(watch.outages(p) for p in workspace.ports), "the client saw nothing, so it proves nothing"
    assert [watch.versions(p) for p in workspace.ports] == [["1.0.0", "1.1.0"]] * 3
    assert workspace.ok("plan", ".").out.startswith("No changes.")


def test_a_way_back_that_is_declared_is_rolled_too(workspace: Workspace) -> None:
    workspace.fleet("1.1.0")
    workspace.apply()
    workspace.fleet("1.0.0")
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_an_undeclared_transition_is_refused_and_says_what_would_allow_it(workspace: Workspace) -> None:
    workspace.apply()
    before = pids(workspace)
    workspace.fleet("2.0.0")
    for command in (["plan", "."], ["apply", ".", "--auto-approve"]):
        refused = workspace.run(*command)
        assert refused.code == 3, str(refused)
        said = refused.out + refused.err
        assert "1.0.0" in said and "2.0.0" in said
        assert "releases.yaml" in said
        assert "mode: rolling" in said
    assert workspace.run("plan", ".", "--detailed-exitcode").code == 3
    assert pids(workspace) == before


def test_downtime_that_is_accepted_allows_the_full_strategy_also_from_a_saved_plan(
    workspace: Workspace,
) -> None:
    workspace.apply()
    workspace.fleet("2.0.0")
    planned = workspace.ok("plan", ".", "--accept-downtime", "--out", "full.plan")
    assert "full" in planned.out
    workspace.ok("apply", "full.plan", "--auto-approve")
    assert [ask(p) for p in workspace.ports] == ["2.0.0"] * 3


def test_a_pair_that_refuses_cannot_be_bought_with_downtime(workspace: Workspace) -> None:
    workspace.pairs.append('{from: "1.0.0", to: "2.0.0", mode: refuse, reason: "the format cannot be read"}')
    workspace.write_releases()
    workspace.apply()
    workspace.fleet("2.0.0")
    refused = workspace.run("plan", ".", "--accept-downtime")
    assert refused.code == 3
    assert "the format cannot be read" in refused.out + refused.err


def test_detailed_exit_code_tells_changes_from_none(workspace: Workspace) -> None:
    assert workspace.run("plan", ".", "--detailed-exitcode").code == 2
    assert workspace.run("plan", ".").code == 0
    workspace.apply()
    assert workspace.run("plan", ".", "--detailed-exitcode").code == 0


def test_a_target_leaves_all_others_alone(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.apply("--target", "node/hello/web-1")
    assert [ask(p) for p in workspace.ports] == ["1.0.0", "1.1.0", "1.0.0"]
    wrong = workspace.run("plan", ".", "--target", "web-1")
    assert wrong.code == 1
    assert "node/FLEET/NAME" in wrong.err


def test_a_changed_environment_restarts_one_by_one_with_its_reason(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet(env="{GREETING: good day}")
    planned = workspace.ok("plan", ".")
    assert "env.GREETING: hello -> good day" in planned.out
    with Watch(workspace.ports) as watch:
        workspace.apply()
    assert watch.most_down_at_once() == 1
    assert [ask(p, "/greeting") for p in workspace.ports] == ["good day"] * 3
    assert workspace.ok("plan", ".").out.startswith("No changes.")


def test_a_crashed_node_shows_in_the_plan_and_is_repaired_alone(workspace: Workspace) -> None:
    workspace.apply()
    before = pids(workspace)
    os.kill(int(before[1] or 0), signal.SIGKILL)
    wait_for(lambda: ask(workspace.ports[1]) is None, "the node to be gone")
    assert "exited" in workspace.ok("status", ".").out
    planned = workspace.run("plan", ".", "--detailed-exitcode")
    assert planned.code == 2
    assert "node/hello/web-1" in planned.out
    assert "node/hello/web-0" not in planned.out
    workspace.apply()
    after = pids(workspace)
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1] not in (None, before[1])
    assert workspace.ok("plan", ".").out.startswith("No changes.")


def test_a_change_by_hand_shows_as_drift_and_is_undone(workspace: Workspace) -> None:
    """A file that fleetctl placed is edited on the host."""
    group = "    labels: {a: b}\n"
    workspace.fleet(group=group)
    text = (workspace.path / "fleet.yaml").read_text()
    text = text.replace("      env:", "      files: [{path: conf/app.conf, content: wanted}]\n      env:")
    workspace.write("fleet.yaml", text)
    workspace.apply()
    placed = sorted((workspace.path / "host").rglob("conf/app.conf"))
    assert [p.read_text() for p in placed] == ["wanted"] * 3
    placed[0].chmod(0o644)
    placed[0].write_text("by hand")
    planned = workspace.run("plan", ".", "--detailed-exitcode")
    assert planned.code == 2, str(planned)
    assert "Changed outside of fleetctl" in planned.out
    assert "files.conf/app.conf" in planned.out
    workspace.apply()
    assert [p.read_text() for p in sorted((workspace.path / "host").rglob("conf/app.conf"))] == ["wanted"] * 3
    assert workspace.ok("plan", ".").out.startswith("No changes.")


def test_scaling_up_and_down(workspace: Workspace) -> None:
    workspace.fleet(count=1, reserve=0)
    workspace.apply()
    workspace.fleet(count=3)
    workspace.apply()
    before = pids(workspace)
    assert None not in before
    workspace.fleet(count=2, reserve=0)
    assert "Plan: 0 to add, 0 to change, 1 to destroy." in workspace.ok("plan", ".").out
    workspace.apply()
    assert pids(workspace) == [before[0], before[1], None]


def data_folders(w: Workspace) -> list[Path]:
    return [p for p in (w.path / "host").rglob("data") if p.is_dir()]


def test_destroy_keeps_retained_data(workspace: Workspace) -> None:
    workspace.apply()
    for folder in data_folders(workspace):
        (folder / "precious").write_text("kept")
    assert len(data_folders(workspace)) == 3
    workspace.ok("destroy", ".", "--auto-approve")
    assert workspace.node_processes() == []
    assert [(f / "precious").read_text() for f in data_folders(workspace)] == ["kept"] * 3


def test_destroy_removes_data_that_is_not_retained_and_says_so(workspace: Workspace) -> None:
    text = (workspace.path / "fleet.yaml").read_text().replace("retain: true", "retain: false")
    workspace.write("fleet.yaml", text)
    workspace.apply()
    assert len(data_folders(workspace)) == 3
    done = workspace.ok("destroy", ".", "--auto-approve")
    assert "its data is removed" in done.out
    assert data_folders(workspace) == []
    assert "No changes" in workspace.ok("destroy", ".", "--auto-approve").out


def test_a_fleet_that_was_destroyed_can_be_applied_again(workspace: Workspace) -> None:
    workspace.apply()
    workspace.ok("destroy", ".", "--auto-approve")
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_inventory_is_a_snapshot_that_plan_reads(workspace: Workspace) -> None:
    workspace.apply()
    shot = workspace.ok("inventory", ".", "--format", "json")
    assert {n["name"] for h in shot.json["hosts"] for n in h["nodes"]} == {"web-0", "web-1", "web-2"}
    workspace.write("seen.json", shot.out)
    assert "web-0" in workspace.ok("inventory", ".").out
    workspace.close()
    planned = workspace.ok("plan", ".", "--observed", "seen.json")
    assert planned.out.startswith("No changes."), "the file was seen, not the hosts"
    broken = workspace.write("seen.json", shot.out[:-20])
    assert workspace.run("plan", ".", "--observed", str(broken)).code == 1


def test_plan_json_is_the_saved_plan(workspace: Workspace) -> None:
    done = workspace.ok("plan", ".", "--format", "json", "--out", "a.plan")
    assert (workspace.path / "a.plan").read_text() == done.out
    assert oct((workspace.path / "a.plan").stat().st_mode & 0o777) == "0o600"
    assert json.loads(done.out)["fleets"][0]["fleet"] == "hello"
    assert workspace.ok("show", "a.plan", "--format", "json").out == done.out
    assert "Plan: 3 to add" in workspace.ok("show", "a.plan").out


def test_runs_tells_what_was_run_and_how_it_ended(workspace: Workspace) -> None:
    workspace.apply()
    runs = workspace.ok("runs", ".", "--format", "json").json["runs"]
    assert [(r["fleet"], r["result"], r["exit_code"]) for r in runs] == [("hello", "succeeded", 0)]
    assert "succeeded" in workspace.ok("runs", ".").out

"""A saved plan runs once, on its own fleet, while its targets are as they were (public cases P1)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask


def pids(w: Workspace) -> list[str | None]:
    return [ask(p, "/pid") for p in w.ports]


def test_a_first_plan_runs_once(workspace: Workspace) -> None:
    """Made against an empty state, it must not make everything a second time."""
    workspace.ok("plan", ".", "--out", "first.plan")
    workspace.ok("apply", "first.plan", "--auto-approve")
    before = pids(workspace)
    again = workspace.run("apply", "first.plan", "--auto-approve")
    assert again.code == 7, str(again)
    assert "Hint:" in again.err
    assert pids(workspace) == before


def test_of_two_plans_for_the_same_targets_only_the_first_applied_runs(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.ok("plan", ".", "--out", "a.plan")
    workspace.write("fleet.yaml", (workspace.path / "fleet.yaml").read_text().replace("hello}", "hi}"))
    workspace.ok("plan", ".", "--out", "b.plan")
    workspace.ok("apply", "b.plan", "--auto-approve")
    stale = workspace.run("apply", "a.plan", "--auto-approve")
    assert stale.code == 7, str(stale)
    assert [ask(p, "/greeting") for p in workspace.ports] == ["hi"] * 3


def test_it_needs_no_manifest(workspace: Workspace) -> None:
    """Complete but for artifact bytes and secret values."""
    workspace.ok("plan", ".", "--out", "all.plan")
    for name in ("fleet.yaml", "releases.yaml"):
        (workspace.path / name).unlink()
    workspace.ok("apply", "all.plan", "--auto-approve")
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_a_manifest_edited_since_makes_it_stale(workspace: Workspace) -> None:
    workspace.ok("plan", ".", "--out", "old.plan")
    workspace.fleet(env="{GREETING: other}")
    stale = workspace.run("apply", "old.plan", "--auto-approve")
    assert stale.code == 7, str(stale)
    assert "fleet.yaml" in stale.err
    assert workspace.node_processes() == []


def test_a_target_that_changed_since_makes_it_stale(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.ok("plan", ".", "--out", "up.plan")
    workspace.apply("--target", "node/hello/web-1")
    stale = workspace.run("apply", "up.plan", "--auto-approve")
    assert stale.code == 7, str(stale)
    assert "web-1" in stale.err
    assert ask(workspace.ports[0]) == "1.0.0"


def test_a_change_elsewhere_does_not(workspace: Workspace) -> None:
    """Staleness is per target."""
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.ok("plan", ".", "--target", "node/hello/web-0", "--out", "zero.plan")
    workspace.apply("--target", "node/hello/web-1")
    workspace.ok("apply", "zero.plan", "--auto-approve")
    assert [ask(p) for p in workspace.ports] == ["1.1.0", "1.1.0", "1.0.0"]


def test_it_refuses_another_state(workspace: Workspace, tmp_path: Path) -> None:
    """The same fleet's name in another state is another fleet."""
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.ok("plan", ".", "--out", "up.plan")
    workspace.fleet("1.0.0")
    workspace.ok("destroy", ".", "--auto-approve")
    shutil.move(workspace.path / ".fleetctl", workspace.path / "elsewhere")
    workspace.apply()
    workspace.fleet("1.1.0")
    refused = workspace.run("apply", "up.plan", "--auto-approve")
    assert refused.code == 7, str(refused)
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_a_refused_plan_cannot_be_applied(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("2.0.0")
    assert workspace.run("plan", ".", "--out", "no.plan").code == 3
    assert workspace.run("apply", "no.plan", "--auto-approve").code in (1, 3)
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


@pytest.mark.parametrize("size", [0, 1, 200, -1])
def test_a_truncated_plan_is_no_plan(workspace: Workspace, size: int) -> None:
    workspace.ok("plan", ".", "--out", "cut.plan")
    path = workspace.path / "cut.plan"
    path.write_bytes(path.read_bytes().rstrip()[:size])
    for command in (["apply", "cut.plan", "--auto-approve"], ["show", "cut.plan"]):
        done = workspace.run(*command)
        assert done.code == 1, str(done)
        assert "cut.plan" in done.err
        assert "Traceback" not in done.err
    assert workspace.node_processes() == []


def test_a_plan_edited_by_hand_is_not_the_one_that_was_made(workspace: Workspace) -> None:
    workspace.ok("plan", ".", "--out", "edited.plan")
    path = workspace.path / "edited.plan"
    document = json.loads(path.read_text())
    document["fleets"][0]["specs"]["web-0"]["env"]["GREETING"] = "something else"
    path.write_text(json.dumps(document))
    done = workspace.run("apply", "edited.plan", "--auto-approve")
    assert done.code == 7, str(done)
    assert "changed after it was made" in done.err
    assert workspace.node_processes() == []


def test_a_plan_of_a_newer_format_is_refused(workspace: Workspace) -> None:
    workspace.ok("plan", ".", "--out", "new.plan")
    path = workspace.path / "new.plan"
    path.write_text(path.read_text().replace('"format_version":"1.2"', '"format_version":"2.0"'))
    done = workspace.run("apply", "new.plan", "--auto-approve")
    assert done.code == 1, str(done)
    assert "2.0" in done.err

"""rollback: the whole specification that was healthy before, by a plan like any other, or a refusal."""

from __future__ import annotations

import shutil

from tests.acceptance.cli import Workspace
from tests.acceptance.client import Watch, ask


def versions(w: Workspace) -> list[str | None]:
    return [ask(p) for p in w.ports]


def test_release_and_environment_go_back_within_the_budget(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0", env="{GREETING: good day}")
    workspace.apply()
    with Watch(workspace.ports) as watch:
        done = workspace.ok("rollback", ".", "--auto-approve")
    assert "Undoes run" in done.out
    assert "1.1.0 -> 1.0.0: rolling" in done.out
    assert versions(workspace) == ["1.0.0"] * 3
    assert [ask(p, "/greeting") for p in workspace.ports] == ["hello"] * 3
    assert watch.most_down_at_once() == 1
    runs = workspace.ok("runs", ".", "--format", "json").json["runs"]
    assert [r["command"] for r in runs] == ["apply", "apply", "rollback"]
    assert "3 to change" in workspace.ok("plan", ".").out, (
        "the manifests still want the newer one, and plan says so"
    )


def test_a_fleet_that_was_never_healthy_before_has_no_way_back(workspace: Workspace) -> None:
    refused = workspace.run("rollback", ".", "--auto-approve")
    assert refused.code == 3, str(refused)
    workspace.apply()
    refused = workspace.run("rollback", ".", "--auto-approve")
    assert refused.code == 3, str(refused)
    assert "never healthy before" in refused.err
    assert versions(workspace) == ["1.0.0"] * 3


def test_a_version_that_failed_is_not_gone_back_to(workspace: Workspace) -> None:
    """1.0.0 was healthy, 1.1.0 failed at its first node: only that node goes back, and to 1.0.0."""
    workspace.apply()
    workspace.release("1.1.0", "exits")
    workspace.fleet("1.1.0")
    assert workspace.run("apply", ".", "--auto-approve").code == 4
    assert versions(workspace).count("1.0.0") == 2
    done = workspace.ok("rollback", ".", "--auto-approve")
    assert "2 nodes unchanged" in done.out
    assert versions(workspace) == ["1.0.0"] * 3


def test_a_way_back_that_is_not_declared_is_refused(workspace: Workspace) -> None:
    workspace.pairs = [
        '{from: "1.0.0", to: "1.1.0", mode: rolling, reverse: never, reason: "the format changed"}'
    ]
    workspace.write_releases()
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.apply()
    refused = workspace.run("rollback", ".", "--auto-approve")
    assert refused.code == 3, str(refused)
    assert "the format changed" in refused.out
    assert versions(workspace) == ["1.1.0"] * 3


def test_a_dead_artifact_stops_it_before_a_node_is_touched(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.apply()
    (workspace.path / "artifacts" / "hello-1.0.0.py").unlink()
    shutil.rmtree(workspace.path / ".fleetctl" / "cache")
    before = [ask(p, "/pid") for p in workspace.ports]
    refused = workspace.run("rollback", ".", "--auto-approve")
    assert refused.code == 1, str(refused)
    assert "hello-1.0.0.py" in refused.err
    assert [ask(p, "/pid") for p in workspace.ports] == before


def test_a_file_that_changed_since_stops_it_before_a_node_is_touched(workspace: Workspace) -> None:
    """The file's bytes are not kept: what was healthy before cannot be placed from others."""
    conf = workspace.write("app.conf", "old")
    text = (workspace.path / "fleet.yaml").read_text()
    workspace.write(
        "fleet.yaml",
        text.replace("      env:", "      files: [{path: app.conf, source: ./app.conf}]\n      env:"),
    )
    workspace.apply()
    conf.write_text("new")
    workspace.apply()
    before = [ask(p, "/pid") for p in workspace.ports]
    stopped = workspace.run("rollback", ".", "--auto-approve")
    assert stopped.code == 7, str(stopped)
    assert "app.conf" in stopped.err
    assert [ask(p, "/pid") for p in workspace.ports] == before
    conf.write_text("old")
    workspace.ok("rollback", ".", "--auto-approve")
    assert {p.read_text() for p in (workspace.path / "host").rglob("app.conf")} == {"old"}

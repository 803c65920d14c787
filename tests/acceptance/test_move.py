"""move as it is called: names change, nodes do not, and the plan afterwards is empty."""

from __future__ import annotations

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask


def pids(w: Workspace) -> list[str | None]:
    return [ask(p, "/pid") for p in w.ports]


def rename_in_manifests(workspace: Workspace, before: str, after: str) -> None:
    text = (workspace.path / "fleet.yaml").read_text()
    workspace.write("fleet.yaml", text.replace(before, after))


def test_a_group_and_its_nodes_are_renamed_without_a_replacement(workspace: Workspace) -> None:
    workspace.apply()
    before = pids(workspace)
    rename_in_manifests(workspace, "name: web", "name: front")
    assert "3 to destroy" in workspace.ok("plan", ".").out
    moved = workspace.ok("move", "group/hello/web", "group/hello/front")
    assert "node/hello/web-0 is node/hello/front-0, of group front" in moved.out
    assert workspace.ok("plan", ".", "--detailed-exitcode").out.startswith("No changes.")
    assert workspace.ok("drift", "--detailed-exitcode").code == 0
    assert "front-2" in workspace.ok("status", ".").out
    workspace.fleet("1.1.0")
    rename_in_manifests(workspace, "name: web", "name: front")
    workspace.apply()
    assert None not in pids(workspace) and pids(workspace) != before
    workspace.ok("audit", "verify", ".")
    workspace.ok("state", "verify", ".")


def test_what_cannot_be_moved_is_refused_with_its_code(workspace: Workspace) -> None:
    nothing = workspace.run("move", "web-0", "x")
    assert nothing.code == 1 and "the state has no fleet" in nothing.err
    assert workspace.run("move", "node/hello/web-0", "node/hello/x").code == 3
    assert not (workspace.path / ".fleetctl" / "state.db").exists()
    workspace.fleet(count=1, reserve=0)
    workspace.ok("plan", "--out", "first.plan")
    workspace.apply()
    assert workspace.run("move", "host/localhost", "host/x").code == 1
    unknown = workspace.run("move", "web-9", "x")
    assert unknown.code == 3 and "did you mean web-0?" in unknown.err
    workspace.fleet("1.1.0", count=1, reserve=0)
    workspace.ok("plan", "--out", "next.plan")
    workspace.ok("move", "web-0", "other")
    stale = workspace.run("apply", "next.plan", "--auto-approve")
    assert stale.code == 7 and "it is named other now" in stale.err

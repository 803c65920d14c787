"""graph as it is called: from manifests and from a saved plan, and what it does when there is nothing to draw."""

from __future__ import annotations

from tests.acceptance.cli import Workspace


def test_a_plan_is_drawn_from_manifests_and_from_its_file(workspace: Workspace) -> None:
    workspace.ok("plan", "--out", "first.plan")
    drawn = workspace.ok("graph")
    assert drawn.out.startswith("digraph plan {") and drawn.out.count("start web-") == 3
    assert workspace.ok("graph", "first.plan").out == drawn.out
    mermaid = workspace.ok("graph", "--format", "mermaid", "--nodes", ".")
    assert mermaid.out.startswith("flowchart LR\n") and "create, start, verify web-0" in mermaid.out
    assert not (workspace.path / ".fleetctl").exists()


def test_a_refused_plan_has_no_steps_and_nothing_to_do_is_said(workspace: Workspace) -> None:
    workspace.fleet(count=0)
    done = workspace.ok("graph")
    assert "nothing to draw" in done.err and done.out.startswith("digraph plan {")
    workspace.fleet(max_unavailable=3, reserve=3)
    assert workspace.run("graph").code == 3

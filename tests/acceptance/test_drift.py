"""drift as it is called: a change by hand, a node that was killed, and what is pending, each with its exit code."""

from __future__ import annotations

import os
import signal

from tests.acceptance.cli import Workspace, wait_for


def test_a_change_by_hand_is_drift_and_what_is_pending_is_not(workspace: Workspace) -> None:
    workspace.fleet()
    text = (workspace.path / "fleet.yaml").read_text()
    workspace.write(
        "fleet.yaml", text.replace("      env:", "      files: [{path: app.conf, content: x}]\n      env:")
    )
    nothing = workspace.ok("drift", "--detailed-exitcode")
    assert "Pending by the manifests, and no drift: web-0, web-1, web-2" in nothing.out
    assert not (workspace.path / ".fleetctl").exists()
    workspace.apply()
    assert (
        workspace.ok("drift", "--detailed-exitcode").out == "No drift. Every node is as fleetctl left it.\n"
    )

    placed = next((workspace.path / "host").rglob("app.conf"))
    placed.chmod(0o644)
    placed.write_text("by hand")
    text = (workspace.path / "fleet.yaml").read_text()
    workspace.write("fleet.yaml", text.replace("GREETING: hello", "GREETING: ciao"))
    done = workspace.run("drift", "--detailed-exitcode")
    assert done.code == 2, str(done)
    assert "files.app.conf" in done.out and "env.GREETING" not in done.out
    assert "Drift: 1 node is not as fleetctl left it." in done.out
    assert workspace.ok("drift").out == done.out
    document = workspace.ok("drift", "--format", "json").json
    (fleet,) = document["fleets"]
    assert document["drift"] is True and fleet["pending"] == ["web-0", "web-1", "web-2"]
    assert [(d["kind"], [r["field"] for r in d["reasons"]]) for d in fleet["drifted"]] == [
        ("changed", ["files.app.conf"])
    ]
    workspace.apply()
    assert workspace.ok("drift", "--detailed-exitcode").code == 0


def test_a_killed_node_is_drift_also_in_a_saved_snapshot(workspace: Workspace) -> None:
    workspace.fleet(count=1, reserve=0)
    workspace.apply()
    for pid in workspace.node_processes():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not workspace.node_processes(), "the node to be gone")
    done = workspace.run("drift", "--detailed-exitcode")
    assert done.code == 2 and "it ended outside of fleetctl" in done.out
    workspace.write("seen.json", workspace.ok("inventory", "--format", "json").out)
    assert workspace.run("drift", "--observed", "seen.json", "--detailed-exitcode").out == done.out

"""doctor as it is called: well, with problems and their fixes, and without touching anything."""

from __future__ import annotations

from typing import Any

from tests.acceptance.cli import Workspace, free_ports, wait_for

SSH = """---
api_version: fleetctl/v1
kind: Host
name: far
ssh: {{address: 127.0.0.1, port: {port}, known_hosts: ./known_hosts, identity_file: ./key, config_file: /dev/null}}
"""


def checks(document: Any, place: str) -> dict[str, Any]:
    (found,) = [p for p in document["places"] if p["place"] == place]
    return {c["name"]: c for c in found["checks"]}


def test_a_machine_that_is_well(workspace: Workspace) -> None:
    done = workspace.ok("doctor")
    assert done.out.endswith("Everything that was looked at is well.\n")
    assert "host/localhost (host)" in done.out and "clock: agrees" in done.out
    assert not (workspace.path / ".fleetctl").exists()
    document = workspace.ok("doctor", "--format", "json").json
    assert (document["problems"], document["warnings"]) == (0, 0)


def test_each_problem_comes_with_its_fix(workspace: Workspace) -> None:
    workspace.write("hosts.yaml", SSH.format(port=free_ports(1)))
    workspace.write("known_hosts", "").chmod(0o666)
    workspace.write("key", "no key").chmod(0o644)
    done = workspace.run("doctor", "--format", "json")
    assert done.code == 1, str(done)
    here, far = checks(done.json, "this machine"), checks(done.json, "host/far (host)")
    assert here["known_hosts"]["fix"].startswith("chmod go-w ")
    assert here["identity"]["fix"].startswith("chmod go= ")
    assert far["reach"]["result"] == "problem"
    human = workspace.run("doctor")
    assert human.code == 1 and "Fix: chmod go-w" in human.out and "problems" in human.out


def test_broken_manifests_and_a_damaged_state_are_problems_and_the_rest_is_looked_at(
    workspace: Workspace,
) -> None:
    workspace.write("fleet.yaml", "kind: Fleet\n")
    (workspace.path / ".fleetctl").mkdir()
    (workspace.path / ".fleetctl" / "state.db").write_text(
        "no database, and long enough to be read as one" * 50
    )
    done = workspace.run("doctor", "--format", "json")
    assert done.code == 1
    here = checks(done.json, "this machine")
    assert here["manifests"]["fix"] == "see them: fleetctl validate"
    assert here["state"]["result"] == "problem"
    assert here["fleetctl"]["result"] == "ok"


def test_a_run_that_was_cut_off_is_found(workspace: Workspace) -> None:
    """And one that is under way holds its lock, which is no problem."""
    workspace.fleet(min_ready="20s", deadline="60s")
    process = workspace.start("apply", ".", "--auto-approve")
    wait_for(lambda: workspace.node_processes(), "a node to be started")
    alive = workspace.ok("doctor", "--format", "json")
    assert checks(alive.json, "this machine")["lock"]["result"] == "warning"
    process.kill()
    process.wait(30)
    cut_off = checks(workspace.run("doctor", "--format", "json").json, "this machine")
    assert "run" in cut_off or "lock" in cut_off
    assert "fleetctl recover" in str(cut_off) or "fleetctl unlock" in str(cut_off)

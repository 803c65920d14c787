"""A review beside a real state: what was really applied, whatever the older revision wanted."""

from __future__ import annotations

import hashlib
from pathlib import Path

from manifests.errors import ExitCode
from tests.acceptance.cli import Workspace
from tests.acceptance.repository import GitRepository


def contents(folder: Path) -> dict[str, str]:
    return {
        str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_the_state_tells_what_was_applied(workspace: Workspace) -> None:
    """main went on to 2.0.0 before anybody applied it: from main nothing happens, from the state it is refused."""
    workspace.fleet("1.0.0")
    workspace.write(".gitignore", ".fleetctl/\nhost/\n")
    workspace.apply()
    repository = GitRepository(workspace.path)
    workspace.fleet("2.0.0")
    repository.commit({}, "main")
    workspace.fleet("2.0.0", env="{GREETING: good day}")
    before = contents(workspace.path / ".fleetctl")
    alone = repository.run("review", "--format", "json")
    assert (alone.code, alone.json["seen"]) == (0, None), str(alone)
    assert [len(row["nodes"]) for row in alone.json["fleets"][0]["changes"]] == [workspace.count]

    result = repository.run("review", "--state", ".fleetctl", "--format", "json")
    assert result.code == ExitCode.REFUSED, str(result)
    assert result.json["refused"]
    assert result.json["fleets"][0]["refusals"] == []
    seen = result.json["seen"]
    assert seen["source"] == "state"
    assert {r["code"] for r in seen["fleets"][0]["refusals"]} == {"compat.unknown"}
    assert [v["from_"] for v in seen["fleets"][0]["verdicts"]] == ["1.0.0"]
    human = repository.run("review", env={"FLEETCTL_STATE": str(workspace.path / ".fleetctl")})
    assert human.code == ExitCode.REFUSED
    assert "As last seen (the state, all healthy):" in human.out
    assert "Refused: 1 reason, see above." in human.out
    # A review reads: neither the journal nor anything else of the state has changed.
    assert contents(workspace.path / ".fleetctl") == before

    workspace.fleet("1.1.0")
    allowed = repository.run("review", "--state", ".fleetctl", "--format", "json")
    assert allowed.json["seen"]["sums"] == {"add": 0, "change": workspace.count, "destroy": 0, "adopt": 0}
    assert allowed.json["seen"]["fleets"][0]["drifted"] == []

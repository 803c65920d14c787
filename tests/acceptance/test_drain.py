"""cordon, drain and uncordon: a host is emptied within the budget, stays empty, and comes back as it was."""

from __future__ import annotations

import json

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask


def test_a_drained_host_stays_empty_until_it_is_uncordoned(workspace: Workspace) -> None:
    """All three nodes are on one host, so its drain needs the downtime accepted."""
    workspace.apply()
    refused = workspace.run("drain", "localhost", ".", "--auto-approve")
    assert refused.code == 3, str(refused)
    assert "0 of 3 stay available, and the floor is 2" in refused.out
    assert workspace.ok("plan", ".").out.startswith("No changes."), "a refused drain cordons nothing"
    done = workspace.ok("drain", "localhost", ".", "--auto-approve", "--accept-downtime")
    assert "host/localhost is cordoned" in done.out
    assert [ask(p) for p in workspace.ports] == [None] * 3
    planned = workspace.run("plan", ".", "--detailed-exitcode")
    assert planned.code == 0, str(planned)
    assert "host localhost is cordoned: web-0, web-1, web-2 stay as they are" in planned.out
    assert "Cordoned, so nothing is started there: host/localhost" in workspace.ok("status", ".").out
    workspace.apply()
    assert workspace.node_processes() == [], "apply starts nothing there either"
    assert "uncordoned" in workspace.ok("uncordon", "localhost", ".").out
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3
    lines = [json.loads(line) for line in workspace.ok("audit", "export", ".").out.splitlines()]
    words = [(e["facts"]["verb"], e["facts"]["host"]) for e in lines if "verb" in e.get("facts", {})]
    assert words == [("cordon", "localhost"), ("uncordon", "localhost")]
    assert all(e["who"] for e in lines if "verb" in e.get("facts", {}))
    assert "whole" in workspace.ok("audit", "verify", ".").out


def test_a_cordoned_host_takes_no_new_fleet_and_a_plan_of_before_is_stale(workspace: Workspace) -> None:
    workspace.ok("plan", ".", "--out", "a.plan")
    workspace.ok("cordon", "localhost", ".")
    assert "was cordoned before" in workspace.ok("cordon", "localhost", ".").out
    stale = workspace.run("apply", "a.plan", "--auto-approve")
    assert stale.code == 7, str(stale)
    workspace.apply()
    assert workspace.node_processes() == []
    workspace.ok("uncordon", "localhost", ".")
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3
    workspace.fleet("1.1.0")
    workspace.ok("plan", ".", "--out", "c.plan")
    workspace.ok("cordon", "localhost", ".")
    stale = workspace.run("apply", "c.plan", "--auto-approve")
    assert stale.code == 7, str(stale)
    assert "cordoned since" in stale.err
    assert workspace.run("cordon", "nowhere", ".").code == 1

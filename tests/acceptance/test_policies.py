"""Policies refuse plans before the first effect, and say where they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.acceptance.cli import Result, Workspace
from tests.acceptance.client import ask

ALWAYS = 'freeze: {periods: [{from: "2000-01-01", until: "2990-01-01", reason: a long winter}]}'


def policy(workspace: Workspace, *rules: str, name: str = "production", fleets: str = "") -> str:
    """Writes a policy; gives the text FILE:LINE that its first rule is at."""
    lines = "".join(f"  {rule}\n" for rule in rules)
    scope = f"fleets: {fleets}\n" if fleets else ""
    head = f"api_version: fleetctl/v1\nkind: Policy\nname: {name}\n{scope}reason: the rules of the house\nrules:\n"
    workspace.write(f"policy-{name}.yaml", head + lines)
    return f"policy-{name}.yaml:{head.count(chr(10)) + 1}:"


def program(workspace: Workspace, text: str) -> None:
    path = workspace.write("judge.py", f"#!/usr/bin/env python3\n{text}\n")
    path.chmod(0o755)


def serving(workspace: Workspace) -> int:
    return sum(ask(port) is not None for port in workspace.ports)


def refused(result: Result, code: int = 3) -> str:
    assert result.code == code, str(result)
    return result.err


def test_a_plan_that_destroys_too_much_is_refused_at_the_place_of_the_rule(workspace: Workspace) -> None:
    workspace.apply()
    place = policy(workspace, "destroy_max: 1")
    workspace.fleet(count=1, reserve=0)
    for command in (["plan", "."], ["apply", ".", "--auto-approve"]):
        said = refused(workspace.run(*command))
        assert place in said
        assert "destroy_max: 1" in said, "the line itself is shown"
        assert "web-1, web-2" in said
        assert "the rules of the house" in said
    assert serving(workspace) == 3
    workspace.fleet(count=2, reserve=0)
    workspace.apply()
    assert serving(workspace) == 2


def test_a_policy_holds_for_the_fleets_that_it_names(workspace: Workspace) -> None:
    policy(workspace, "hosts: [nowhere]", fleets='[other, "edge-*"]')
    result = workspace.ok("plan", ".")
    assert "holds for no fleet" in result.err
    policy(workspace, "hosts: [nowhere]", fleets='["hel*"]')
    refused(workspace.run("plan", "."))


def test_a_freeze_holds_when_a_saved_plan_is_applied_and_lets_a_rollback_through(
    workspace: Workspace,
) -> None:
    """The plan itself is not changed by it: a saved one can wait for the end of the freeze."""
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.apply()
    workspace.fleet("1.0.0")
    policy(workspace, ALWAYS)
    said = refused(workspace.run("plan", ".", "--out", "back.plan"))
    assert "a long winter" in said
    assert "Saved to back.plan all the same" in said
    assert "a long winter" in refused(workspace.run("apply", "back.plan", "--auto-approve"))
    assert [ask(p) for p in workspace.ports] == ["1.1.0"] * 3
    workspace.fleet("1.1.0")
    workspace.ok("apply", ".", "--auto-approve")  # nothing to do is no change
    workspace.fleet("1.0.0")
    workspace.ok("rollback", ".", "--auto-approve")
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_an_approval_is_demanded_of_apply_and_not_of_plan(workspace: Workspace) -> None:
    policy(workspace, "require_approval: changes")
    planned = workspace.ok("plan", ".", "--out", "approved.plan")
    assert "needs an approval" in planned.err
    said = refused(workspace.run("apply", ".", "--auto-approve"))
    assert "--approved FILE" in said
    assert "needs an approval" in refused(workspace.run("apply", "approved.plan", "--auto-approve"))
    assert workspace.node_processes() == []
    workspace.apply("--approved", "approved.plan")
    (entry,) = [
        e
        for e in map(json.loads, workspace.ok("audit", "export", ".").out.splitlines())
        if e["what"] == "run_started"
    ]
    approved = json.loads((workspace.path / "approved.plan").read_text())
    assert entry["facts"]["approval"] == approved["plan_id"]
    assert entry["plan_id"] != approved["plan_id"]
    assert "needs an approval" in refused(workspace.run("destroy", ".", "--auto-approve"))
    workspace.ok("plan", "--destroy", ".", "--out", "end.plan")
    workspace.ok("destroy", ".", "--auto-approve", "--approved", "end.plan")
    assert workspace.node_processes() == []


def test_what_a_policy_says_is_asked_again_before_the_first_effect(workspace: Workspace) -> None:
    """The program changes its mind between the showing and the doing."""
    policy(workspace, "program: {command: [./judge.py]}")
    program(
        workspace,
        """\
import json, pathlib
seen = pathlib.Path(__file__).with_name("asked")
first = not seen.exists()
seen.write_text("yes")
print(json.dumps({"findings": [] if first else [{"summary": "Too late"}]}))""",
    )
    said = refused(workspace.run("apply", ".", "--auto-approve"))
    assert "Too late" in said
    assert workspace.node_processes() == []
    assert not (workspace.path / "host").exists()


def test_policies_are_part_of_the_plan_and_have_a_schema(workspace: Workspace) -> None:
    policy(workspace, "destroy_max: 0", "program: {command: [./judge.py]}")
    program(workspace, "print('{\"findings\": []}')")
    plan: dict[str, Any] = workspace.ok("plan", ".", "--format", "json").json
    (written,) = plan["policies"]
    assert written["document"]["rules"]["destroy_max"] == 0
    assert written["document"]["rules"]["program"]["command"] == [str(workspace.path / "judge.py")]
    assert re.fullmatch(r"./policy-production.yaml:\d+:\d+", written["places"]["destroy_max"])
    assert "Policy" in workspace.ok("schema", "Policy").out
    assert Path(workspace.path / ".fleetctl").exists() is False

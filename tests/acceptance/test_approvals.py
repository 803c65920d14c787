"""A plan against the approved one: what differs is told in every format, and refused by `apply --approved`."""

from __future__ import annotations

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask
from tests.acceptance.terminal import Person


@pytest.fixture
def approved(workspace: Workspace) -> Workspace:
    """The first plan was approved; nothing is there yet."""
    workspace.ok("plan", ".", "--out", "approved.plan")
    return workspace


def test_the_same_effects_are_the_approved_ones_whenever_planned(approved: Workspace) -> None:
    """Comments, another folder for the artifacts and another time are no other plan."""
    again = approved.run("plan", ".", "--against", "approved.plan", "--detailed-exitcode")
    assert again.code == 2, str(again)
    assert "Against approved.plan: the same effects." in again.out
    (approved.path / "artifacts").rename(approved.path / "elsewhere")
    releases = (approved.path / "releases.yaml").read_text().replace("./artifacts/", "./elsewhere/")
    approved.write("releases.yaml", f"# moved\n{releases}")
    same = approved.ok("plan", ".", "--against", "approved.plan", "--format", "json").json
    assert same["same"] is True
    assert same["differences"] == []
    assert same["approved"]["effects"] == same["present"]["effects"]
    assert same["approved"]["plan_id"] != same["present"]["plan_id"]
    approved.apply("--approved", "approved.plan")
    assert [ask(port) for port in approved.ports] == ["1.0.0"] * 3
    assert "No changes" in approved.apply("--approved", "approved.plan").out


def test_anything_else_is_told_and_refused(approved: Workspace) -> None:
    approved.fleet(env="{GREETING: servus}", reserve=0)
    told = approved.run("plan", ".", "--against", "approved.plan", "--detailed-exitcode")
    assert told.code == 7, str(told)
    assert "node/hello/web-0 specs.env.GREETING: approved hello, now servus" in told.out
    assert "fleet/hello budgets.fleet.reserve: approved 1, now 0" in told.out
    found = approved.ok("plan", ".", "--against", "approved.plan", "--format", "json").json
    assert found["same"] is False
    assert {
        "address": "node/hello/web-2", "what": "specs.env.GREETING", "approved": "hello", "present": "servus",
    } in found["differences"]  # fmt: skip
    page = approved.ok("plan", ".", "--against", "approved.plan", "--format", "markdown").out
    head, _, folded = page.partition("<details>")
    assert "Against approved.plan: " in head
    assert "now servus" in folded
    for what in (["."], ["other.plan"]):
        approved.ok("plan", ".", "--out", "other.plan")
        refused = approved.run("apply", *what, "--approved", "approved.plan", "--auto-approve")
        assert refused.code == 7, str(refused)
        assert "now servus" in refused.err
        assert "not what was approved" in refused.err
    assert approved.node_processes() == []


def test_what_policies_find_is_on_the_page_and_at_its_line(approved: Workspace) -> None:
    head = "api_version: fleetctl/v1\nkind: Policy\nname: production\nreason: the house\nrules:\n"
    approved.write("policy.yaml", f"{head}  hosts: [elsewhere]\n  require_approval: changes\n")
    page = approved.run("plan", ".", "--format", "markdown")
    assert page.code == 3, str(page)
    opened = page.out.partition("<details>")[0]
    assert "**Refused** for 1 reason. It would be 3 to add" in opened
    assert "A node is on a host that a policy does not allow" in opened
    assert "policy.yaml:6:10" in opened
    summary = approved.path / "summary.md"
    env = {"GITHUB_WORKSPACE": str(approved.path), "GITHUB_STEP_SUMMARY": str(summary)}
    log = approved.run("plan", ".", "--format", "github", env=env)
    assert log.code == 3, str(log)
    assert "\n::error file=policy.yaml,line=6,col=10" in log.out
    assert "\n::warning file=policy.yaml,line=7," in log.out
    assert "This is policy production: the house." in summary.read_text()


def test_what_cannot_be_an_approval_is_refused(approved: Workspace) -> None:
    (approved.path / "cut.plan").write_bytes((approved.path / "approved.plan").read_bytes()[:100])
    assert approved.run("apply", ".", "--auto-approve", "--approved", "cut.plan").code == 1
    text = (approved.path / "approved.plan").read_text().replace('"hello"', '"other"')
    approved.write("edited.plan", text)
    assert approved.run("apply", ".", "--auto-approve", "--approved", "edited.plan").code == 7
    assert approved.run("apply", ".", "--auto-approve", "--approved", "no-such.plan").code == 1
    both = approved.run("plan", ".", "--via", "--against", "approved.plan")
    assert both.code == 1
    assert "--via makes several plans" in both.err
    assert approved.node_processes() == []


def test_a_saved_end_of_a_fleet_wants_its_name_typed(approved: Workspace) -> None:
    """However it is called: `apply` of what `plan --destroy` saved is the end of a fleet, too."""
    approved.ok("apply", "approved.plan", "--auto-approve")
    approved.ok("plan", "--destroy", ".", "--out", "end.plan")
    with Person(approved, "apply", "end.plan") as person:
        person.see("to go on: ")
        person.type("yes\n")
        assert person.end() == 1
    assert [ask(port) for port in approved.ports] == ["1.0.0"] * 3

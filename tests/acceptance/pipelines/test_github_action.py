"""`action.yml`: its scripts run as GitHub's runner would run them, against a stand-in for the comments' API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.pipelines.conftest import Change
from tests.acceptance.pipelines.forge import Forge
from tests.acceptance.pipelines.runner import ACTION, Runner
from tests.house.sources import ROOT

PUSH = {"name": "push"}
PAGE = ROOT / "docs" / "how-to" / "ci.md"


def pull_request(change: Change) -> dict[str, Any]:
    return {"name": "pull_request", "pull_request": {"number": 7, "base": {"sha": change.base}}}


def runner(tmp_path: Path, comments: Forge, name: str = "machine") -> Runner:
    return Runner(tmp_path / name, {"GITHUB_API_URL": comments.url})


def test_a_pull_request_is_reviewed_and_its_one_comment_is_updated(
    change: Change, comments: Forge, tmp_path: Path
) -> None:
    """From a shallow checkout that does not have the commit it is compared with."""
    # The comment of an earlier run may be on any page.
    comments.comments = {n: f"talk {n}" for n in range(1, 131)}
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    ran = runner(tmp_path, comments).action(checkout, pull_request(change), paths="fleet")
    assert ran.code == 0, str(ran)
    assert ran.outputs["run"] == {"command": "review", "exit-code": "2", "changes": "true"}
    comment = comments.comments[131]
    assert comment.startswith("<!-- fleetctl review ")
    assert "hello 1.0.0 -> 1.1.0" in comment
    assert comments.tokens == {"Bearer the-token"}
    # The change is annotated at its line, and the summary of the step has the review as well.
    assert "file=fleet/fleet.yaml,line=" in ran.log
    assert "hello 1.0.0 -> 1.1.0" in ran.summary
    again = change.repository.checkout(tmp_path / "two", change.head)
    ran = runner(tmp_path, comments, "another").action(again, pull_request(change), paths="fleet")
    assert ran.code == 0, str(ran)
    assert "The comment was updated." in ran.log
    assert [w.partition(" ")[0] for w in comments.writes] == ["POST", "PATCH"]
    assert len(comments.comments) == 131


def test_a_refused_change_is_commented_and_fails(change: Change, comments: Forge, tmp_path: Path) -> None:
    change.repository.workspace.fleet("2.0.0", reserve=0)
    head = change.repository.commit("2.0.0, which no pair leads to")
    checkout = change.repository.checkout(tmp_path / "one", head)
    ran = runner(tmp_path, comments).action(checkout, pull_request(change), paths="fleet")
    assert ran.code == 3, str(ran)
    assert "Refused" in comments.comments[1]


def test_manifests_that_cannot_be_used_are_told_at_their_line(
    change: Change, comments: Forge, tmp_path: Path
) -> None:
    fleet = change.repository.workspace.path / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("trust_domain", "trust_domian"))
    head = change.repository.commit("a slip of the pen")
    checkout = change.repository.checkout(tmp_path / "one", head)
    ran = runner(tmp_path, comments).action(checkout, pull_request(change), paths="fleet")
    assert ran.code == 1, str(ran)
    assert "::error file=fleet/fleet.yaml,line=4,col=1" in ran.log
    assert "cannot be used" in comments.comments[1]


def test_a_token_that_may_not_write_is_a_warning(change: Change, comments: Forge, tmp_path: Path) -> None:
    """As for every pull request from a fork."""
    comments.denied = True
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    ran = runner(tmp_path, comments).action(checkout, pull_request(change), paths="fleet")
    assert ran.code == 0, str(ran)
    assert "::warning::the review was not written as a comment: the API answers 403" in ran.log


def test_what_an_input_says_is_run_by_no_shell(change: Change, comments: Forge, tmp_path: Path) -> None:
    """A branch's or a path's name is text, whatever it says."""
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    evil = "fleet\n$(touch stolen)\n`touch stolen`\n; touch stolen #\n*"
    ran = runner(tmp_path, comments).action(checkout, PUSH, paths=evil, plan="$(touch stolen).plan")
    assert ran.code == 1, str(ran)
    assert "$(touch stolen) was not found" in ran.log
    assert [p.name for p in checkout.iterdir() if "stolen" in p.name] == []


def test_a_push_is_planned_and_the_plan_is_saved(change: Change, comments: Forge, tmp_path: Path) -> None:
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    (checkout / "fleet.plan").write_text("an older one")
    ran = runner(tmp_path, comments).action(checkout, PUSH, paths="fleet")
    assert ran.code == 0, str(ran)
    assert ran.outputs["run"] == {
        "plan": "fleet.plan", "command": "plan", "exit-code": "2", "changes": "true",
    }  # fmt: skip
    assert json.loads((checkout / "fleet.plan").read_text())["fleets"][0]["fleet"] == "hello"
    assert "2 to add" in ran.summary
    assert comments.writes == []


def test_apply_wants_an_approved_plan(change: Change, comments: Forge, tmp_path: Path) -> None:
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    machine = runner(tmp_path, comments)
    ran = machine.action(checkout, PUSH, command="apply", paths="fleet")
    assert ran.code == 1
    assert "::error::apply needs the approved plan" in ran.log
    ran = machine.action(checkout, PUSH, command="destroy", paths="fleet")
    assert ran.code == 1
    assert "no such command of this action" in ran.log


def test_arguments_and_a_base_are_handed_on(change: Change, comments: Forge, tmp_path: Path) -> None:
    """Each line is one argument, and a base is another revision than the pull request's."""
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    machine = runner(tmp_path, comments)
    given = {"paths": "fleet/fleet.yaml\nfleet/releases.yaml\n", "arguments": "--target\nnode/hello/web-1\n"}
    ran = machine.action(checkout, PUSH, plan="one.plan", **given)
    assert ran.results == {"exit-code": "2", "changes": "true", "plan": "one.plan"}, str(ran)
    assert "1 to add" in ran.summary
    # The head against itself: nothing changes, and nothing is said on the pull request.
    given = {"paths": "fleet", "base": change.head, "comment": "false"}
    ran = machine.action(checkout, pull_request(change), **given)
    assert ran.results == {"exit-code": "0", "changes": "false", "plan": ""}, str(ran)
    assert comments.writes == []


def test_the_page_has_every_input_and_output_with_its_default() -> None:
    document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| `")]
    shown = {n: row[-1] for row in rows if len(row) == 3 for n in re.findall(r"`([\w-]+)`", row[0])}
    assert shown.keys() == document["inputs"].keys()
    # What is an expression in the action is said in words.
    literal = {name: str(i["default"]) for name, i in document["inputs"].items() if "${{" not in i["default"]}
    assert [name for name, default in literal.items() if default and f"`{default}`" not in shown[name]] == []
    assert [name for name in document["outputs"] if f"`{name}`" not in page] == []


def test_every_value_reaches_the_scripts_as_a_variable_that_is_an_input() -> None:
    """And every input is used: one that nothing reads would be a promise that nobody keeps."""
    document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    used = ACTION.read_text(encoding="utf-8")
    assert [name for name in document["inputs"] if f"inputs.{name}" not in used] == []
    assert all("${{" not in step["run"] for step in document["runs"]["steps"])
    assert all(step["shell"] == "bash" for step in document["runs"]["steps"])

"""`plan` and `show` for pull requests: the same sentences as in the terminal, as Markdown and as annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manifests.errors import ExitCode
from tests.acceptance.repository import GitRepository
from tests.acceptance.test_review import HOST, PAIRS, RELEASES, fleet, same, snapshot
from tests.cli.test_github import commands
from tests.cli.test_markdown import parsed


@pytest.fixture
def folder(tmp_path: Path) -> GitRepository:
    made = GitRepository(tmp_path / "fleet")
    artifacts = {f"artifacts/hello-{v}.bin": v for v in ("1.0.0", "1.1.0", "2.0.0")}
    made.write({"fleet.yaml": fleet("1.1.0"), "releases.yaml": RELEASES + HOST + PAIRS, **artifacts})
    empty: dict[str, Any] = snapshot("1.0.0", "a")
    made.write({"seen.json": json.dumps(empty)})
    for host in empty["hosts"]:
        host["nodes"] = []
    made.write({"empty.json": json.dumps(empty)})
    return made


@pytest.mark.parametrize(("form", "ending"), [("markdown", "md"), ("github", "github")])
def test_a_plan_in_each_format(folder: GitRepository, form: str, ending: str) -> None:
    """Once with nodes to create, once refused, because they belong to somebody else."""
    made = folder.run("plan", "-f", ".", "--observed", "empty.json", "--format", form)
    assert made.code == ExitCode.OK, str(made)
    same(f"plan.{ending}", made.out)
    refused = folder.run("plan", "-f", ".", "--observed", "seen.json", "--format", form)
    assert refused.code == ExitCode.REFUSED, str(refused)
    same(f"plan-refused.{ending}", refused.out)


def test_a_saved_plan_is_shown_as_it_was_planned(folder: GitRepository, tmp_path: Path) -> None:
    """With its id, by which it is approved; changes have no lines, since a plan carries none."""
    made = folder.run(
        "plan", "-f", ".", "--observed", "empty.json", "--format", "markdown", "--out", "the.plan"
    )
    shown = folder.run("show", "the.plan", "--format", "markdown")
    assert shown.out == made.out
    document = json.loads((folder.path / "the.plan").read_text())
    assert f"Plan `{document['plan_id']}`, made `{document['created_at']}`." in shown.out
    assert [t.info for t in parsed(shown.out) if t.type == "fence"] == ["text"]
    summary = tmp_path / "summary.md"
    log = folder.run("show", "the.plan", "--format", "github", env={"GITHUB_STEP_SUMMARY": str(summary)})
    found = commands(log.out)
    assert [(name, sorted(properties)) for name, properties, _ in found] == [("notice", ["title"])]
    assert summary.read_text(encoding="utf-8") == shown.out


def test_several_plans_are_one_output(folder: GitRepository) -> None:
    """`--via` makes one plan for each rollout on the way; each is a page of its own."""
    folder.write({"fleet.yaml": fleet("2.0.0")})
    adopted = ("plan", "-f", ".", "--observed", "seen.json", "--adopt", "--via")
    page = folder.run(*adopted, "--format", "markdown")
    assert page.code == ExitCode.OK, str(page)
    headings = [line for line in page.out.splitlines() if line.startswith("### ")]
    assert headings == ["### fleetctl plan 1 of 2", "### fleetctl plan 2 of 2"]
    assert len({line for line in page.out.splitlines() if line.startswith("<!-- ")}) == 2
    log = folder.run(*adopted, "--format", "github")
    assert {name for name, _, _ in commands(log.out)} == {"warning", "notice"}

"""A pull request whose author wants more than a review: nothing that he writes is a command, markup or a secret."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from manifests.errors import ExitCode
from tests.acceptance.repository import GitRepository
from tests.acceptance.test_review import HOST, RELEASES, SARIF, fleet
from tests.cli.hostile import TEXTS
from tests.cli.test_github import commands
from tests.cli.test_markdown import parsed

CANARY = "canary-4f1d"
# What git allows of hostile names.
BRANCH = "##]topic`<img>|@everybody"


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """Hostile values, a hostile reason, and a hostile file name; the upgrade itself is allowed."""
    made = GitRepository(tmp_path / "fleet")
    made.commit({"fleet.yaml": fleet("1.0.0") + RELEASES + HOST}, "one")
    env = {f"V{n}": text for n, text in enumerate(TEXTS) if "\0" not in text and "\x1b" not in text}
    # YAML's escapes are JSON's, but for letters that JSON writes as two.
    shown = ", ".join(
        f"{name}: {json.dumps(text, ensure_ascii=max(text) <= chr(0xFFFF))}" for name, text in env.items()
    )
    steal = '{secret: "command:touch stolen"}'
    pair = (
        "---\napi_version: fleetctl/v1\nkind: Compatibility\nproduct: hello\npairs:\n"
        f'  - {{from: "1.0.0", to: "1.1.0", mode: rolling, reason: {json.dumps(TEXTS[1] + TEXTS[3] + TEXTS[12])}}}\n'
    )
    made.git("checkout", "--quiet", "-b", BRANCH)
    made.git("rm", "--quiet", "fleet.yaml")
    hostile = fleet("1.1.0", env=f"{{{shown}, TOKEN: {steal}}}") + RELEASES + HOST + pair
    made.commit({"::error::x,y`z` <img src=x>\n::warning::w.yaml": hostile}, "two")
    return made


def test_only_our_own_commands_reach_the_runner(repository: GitRepository, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    result = repository.run(
        "review",
        "main",
        BRANCH,
        "--format",
        "github",
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    assert result.code == 0, str(result)
    found = commands(result.out)
    assert {name for name, _, _ in found} <= {"error", "warning", "notice"}
    assert all(set(properties) <= {"file", "line", "col", "endColumn", "title"} for _, properties, _ in found)
    assert all("pwned" not in properties["title"] for _, properties, _ in found)
    assert {p["file"] for _, p, _ in found if "file" in p} == {
        "::error::x,y`z` <img src=x>\n::warning::w.yaml"
    }
    assert commands(result.err) == []
    assert_tame(summary.read_text(encoding="utf-8"))


def test_the_comment_holds_no_markup_but_ours(repository: GitRepository) -> None:
    result = repository.run("review", "main", BRANCH, "--format", "markdown")
    assert_tame(result.out)


def assert_tame(page: str) -> None:
    """Headings, folds and lists are those that fleetctl writes, and what is code stays code."""
    tokens = parsed(page)
    assert [t for t in tokens if t.type in ("html_inline", "image", "link_open", "code_block")] == []
    assert len([t for t in tokens if t.type == "heading_open"]) == 1
    html = [t.content.strip() for t in tokens if t.type == "html_block"]
    assert html[0].startswith("<!-- fleetctl review ")
    assert all(h == "</details>" or h.startswith("<details>\n<summary>") for h in html[1:])
    bare = "".join(t.content for t in tokens if t.type == "text")
    assert not any(mark in bare for mark in ("@everybody", "example.invalid", "pwned", "onerror"))


def test_sarif_and_json_are_valid_all_the_same(repository: GitRepository) -> None:
    sarif = repository.run("review", "main", BRANCH, "--format", "sarif")
    jsonschema.Draft202012Validator(SARIF).validate(sarif.json)
    document = repository.run("review", "main", BRANCH, "--format", "json")
    assert document.json["head"]["name"] == BRANCH


@pytest.mark.parametrize("form", ["human", "json", "markdown", "github", "sarif"])
def test_no_secret_is_resolved(repository: GitRepository, form: str) -> None:
    """Neither the command that a reference names is run, nor is a variable read."""
    repository.git("checkout", "--quiet", BRANCH)
    result = repository.run("review", "main", "--format", form, env={"STOLEN": CANARY})
    assert result.code == 0, str(result)
    assert not list(repository.path.rglob("stolen"))
    assert CANARY not in result.out + result.err
    assert "command:touch stolen" in result.out or form == "json"


def test_an_error_s_own_text_is_no_command(repository: GitRepository) -> None:
    result = repository.run("review", "::error::pwned", "--format", "github")
    assert result.code == ExitCode.ERROR
    assert "pwned" in result.err
    assert commands(result.out + result.err) == []

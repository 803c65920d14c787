"""A secret's value is in the node's environment and nowhere else: searched for in every byte."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import Result, Workspace
from tests.acceptance.client import ask

CANARY = "canary-7f3c9a51e2"
OTHER = "canary-b0b0b0b0b0"


def places_with(w: Workspace, word: str) -> list[Path]:
    """Files below the workspace that hold the word."""
    return [p for p in w.path.rglob("*") if p.is_file() and word.encode() in p.read_bytes()]


def silent(*results: Result) -> None:
    for r in results:
        assert CANARY not in r.out + r.err
        assert OTHER not in r.out + r.err


def test_the_canary_is_found_only_where_the_node_needs_it(workspace: Workspace) -> None:
    workspace.fleet(env='{GREETING: {secret: "env:CANARY"}}')
    with_secret = {"CANARY": CANARY}
    silent(
        workspace.ok("validate", ".", env=with_secret),
        workspace.ok("plan", ".", "--out", "s.plan", env=with_secret),
        workspace.ok("show", "s.plan", "--format", "json"),
        workspace.ok("apply", "s.plan", "--auto-approve", env=with_secret),
        workspace.ok("status", ".", env=with_secret),
        workspace.ok("inventory", ".", "--format", "json", env=with_secret),
        workspace.ok("runs", ".", "--format", "json"),
    )
    assert [ask(p, "/greeting") for p in workspace.ports] == [CANARY] * 3
    for place in places_with(workspace, CANARY):
        assert place.is_relative_to(workspace.path / "host" / "nodes"), place
        assert place.stat().st_mode & 0o077 == 0, f"{place} can be read by others"
    same = workspace.ok("plan", ".", env=with_secret)
    assert same.out.startswith("No changes."), str(same)


def test_a_changed_value_shows_as_a_change_and_is_never_shown(workspace: Workspace) -> None:
    """The digests are keyed, so a change is seen and the value cannot be guessed."""
    workspace.fleet(env='{GREETING: {secret: "env:CANARY"}}')
    workspace.apply(env={"CANARY": CANARY})
    planned = workspace.run("plan", ".", "--detailed-exitcode", env={"CANARY": OTHER})
    assert planned.code == 2, str(planned)
    assert "env.GREETING: (secret) -> (secret)" in planned.out
    silent(planned)
    done = workspace.apply(env={"CANARY": OTHER})
    silent(done)
    assert [ask(p, "/greeting") for p in workspace.ports] == [OTHER] * 3
    assert places_with(workspace, CANARY) == [], "the old value is gone"


def test_a_secret_that_cannot_be_resolved_is_an_error_before_anything_happens(workspace: Workspace) -> None:
    workspace.fleet(env='{GREETING: {secret: "env:NOT_SET_ANYWHERE"}}')
    done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 1, str(done)
    assert "NOT_SET_ANYWHERE" in done.err
    assert workspace.node_processes() == []


def test_a_secret_in_a_file_is_written_for_its_owner_only(workspace: Workspace) -> None:
    (workspace.path / "token").write_text(CANARY)
    text = (workspace.path / "fleet.yaml").read_text()
    text = text.replace(
        "      env:",
        f'      files: [{{path: conf/token, secret: "file:{workspace.path}/token", mode: "0600"}}]\n      env:',
    )
    workspace.write("fleet.yaml", text)
    silent(workspace.apply())
    placed = [p for p in places_with(workspace, CANARY) if p != workspace.path / "token"]
    assert len(placed) >= 3
    assert all(p.is_relative_to(workspace.path / "host" / "nodes") for p in placed), placed
    assert all(p.stat().st_mode & 0o077 == 0 for p in placed)


def test_a_value_that_breaks_something_is_not_in_the_error_either(workspace: Workspace) -> None:
    """Also with --debug, where a traceback is shown."""
    workspace.release("1.0.0", "exits")
    workspace.fleet(env='{GREETING: {secret: "env:CANARY"}}', deadline="2s")
    done = workspace.run(
        "apply", ".", "--auto-approve", "--debug", env={"CANARY": CANARY + "\n; exit 7 $(x)"}
    )
    silent(done)
    assert done.code in (1, 4), str(done)

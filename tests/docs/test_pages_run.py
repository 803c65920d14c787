"""Pages whose every command is run, in order, in an empty folder with the real fleetctl."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace
from tests.docs.pages import blocks, shown
from tests.docs.run_page import first_missing, run
from tests.house.sources import ROOT

FIRST_PORT = 18080
NODES = 3


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """An empty folder with free ports; what still runs in it is ended."""
    workspace = Workspace(tmp_path / "hello")
    for path in sorted(workspace.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    yield workspace
    workspace.close()


def page(name: str, workspace: Workspace) -> str:
    """A page's text, its ports moved to free ones."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for index in range(NODES):
        text = text.replace(str(FIRST_PORT + index), str(workspace.port + index))
    return text


def carry_out(text: str, workspace: Workspace) -> list[str]:
    """Writes the files and runs the commands of a page in their order; gives the commands."""
    done = []
    for block in blocks(text):
        if block.file is not None:
            (workspace.path / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "console":
            for command in shown(block):
                run(command, workspace)
                done.append(command.line)
    return done


def test_tutorial_runs_from_top_to_bottom(workspace: Workspace) -> None:
    text = page("tutorial.md", workspace)
    done = carry_out(text, workspace)
    assert len(done) == len(re.findall(r"^\$ (?!echo)", text, re.M))
    verbs = {line.split()[1] for line in done if line.startswith("fleetctl ")}
    assert verbs >= {"validate", "plan", "apply", "status", "rollback", "destroy", "runs"}
    assert workspace.node_processes() == []


def test_tutorial_installs_by_a_target_that_exists() -> None:
    (install,) = [
        b for b in blocks((ROOT / "docs/tutorial.md").read_text(encoding="utf-8")) if b.kind == "sh"
    ]
    target, path = install.text.splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"\n{target.removeprefix('make ')}:" in makefile
    assert path == 'export PATH="$PWD/.venv/bin:$PATH"'
    assert "\nVENV   := .venv\n" in makefile


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (["one", "…", "three"], None),
        (["one  t…", "three"], None),
        (["two", "one"], "one"),
        (["four"], "four"),
        (["o…e two"], None),
    ],
)
def test_an_answer_that_differs_is_noticed(answer: list[str], missing: str | None) -> None:
    assert first_missing(answer, "one two\nthree\n") == missing

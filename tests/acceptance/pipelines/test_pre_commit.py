"""The hooks, run as pre-commit runs them: the entry and its arguments, at the top of the repository."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.pipelines.conftest import Change
from tests.acceptance.pipelines.repository import git
from tests.acceptance.pipelines.runner import BIN
from tests.house.sources import ROOT

HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def run(hook: str, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (found,) = [h for h in HOOKS if h["id"] == hook]
    assert found["pass_filenames"] is False
    return subprocess.run(
        [*shlex.split(found["entry"]), *found.get("args", []), *arguments],
        cwd=repository,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(repository), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_validate_lets_a_commit_through_and_stops_a_bad_one(change: Change) -> None:
    top = change.repository.path
    good = run("fleetctl-validate", top, "fleet")
    assert good.returncode == 0, good.stderr
    fleet = change.repository.workspace.path / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("trust_domain", "trust_domian"))
    bad = run("fleetctl-validate", top, "fleet")
    assert bad.returncode == 1
    assert "fleet/fleet.yaml:4:1 (trust_domian)" in bad.stderr
    assert "did you mean trust_domain?" in bad.stderr


def test_fmt_changes_files_which_stops_the_commit_and_nothing_once_they_are_laid_out(change: Change) -> None:
    top = change.repository.path
    assert run("fleetctl-fmt", top, "fleet").returncode == 0
    if git(top, "status", "--porcelain"):
        change.repository.commit("laid out")
    assert run("fleetctl-fmt", top, "fleet").returncode == 0
    assert git(top, "status", "--porcelain") == ""
    fleet = change.repository.workspace.path / "fleet.yaml"
    laid_out = fleet.read_text()
    fleet.write_text(laid_out.replace("name: hello", "name:    hello"))
    run("fleetctl-fmt", top, "fleet")
    # pre-commit fails a hook that changed files; the next try finds them as they are to be.
    assert fleet.read_text() == laid_out


@pytest.mark.parametrize("hook", HOOKS, ids=lambda h: h["id"])
def test_a_hook_says_what_pre_commit_needs(hook: dict[str, Any]) -> None:
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["language"] == "python", "pre-commit installs the repository itself"

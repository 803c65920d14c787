"""How runners and desks come by fleetctl: installed by the action, by the GitLab template, and by pre-commit.

Each installs this project from a git checkout of it. The packages that it depends on come from the package index; they
are fetched once for all of it, and nothing here runs where they cannot be had.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.pipelines.conftest import Change
from tests.acceptance.pipelines.forge import Forge
from tests.acceptance.pipelines.gitlab import GitLab
from tests.acceptance.pipelines.project import Project
from tests.acceptance.pipelines.repository import WHO, git
from tests.acceptance.pipelines.runner import SYSTEM_PATH, Runner
from tests.docs.pages import blocks
from tests.house.sources import ROOT

# Fetching and installing some fifty packages takes most of it.
pytestmark = pytest.mark.timeout(600)
PYTHON = str(Path(sys.executable))
PAGE = ROOT / "docs" / "how-to" / "ci.md"


def test_the_action_installs_itself_once_and_is_found_by_the_steps_after_it(
    change: Change, comments: Forge, this_project: Project, packages: dict[str, str], tmp_path: Path
) -> None:
    source = this_project.unpacked(tmp_path / "action")
    machine = Runner(tmp_path / "machine", packages, source=source, path=SYSTEM_PATH)
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    ran = machine.action(checkout, {"name": "push"}, paths="fleet", python=PYTHON)
    assert ran.code == 0, str(ran)
    assert ran.results == {"exit-code": "2", "changes": "true", "plan": "fleet.plan"}
    assert json.loads((checkout / "fleet.plan").read_text())["fleets"][0]["fleet"] == "hello"
    assert machine.path == f"{machine.folder}/fleetctl/bin:{SYSTEM_PATH}"
    # A second step of the same job finds it there: it has no Python to install it with.
    ran = machine.action(checkout, {"name": "push"}, paths="fleet", python="/nowhere/python")
    assert ran.results["exit-code"] == "2", str(ran)


def test_the_gitlab_template_installs_the_package_that_a_variable_names(
    change: Change, this_project: Project, packages: dict[str, str], tmp_path: Path
) -> None:
    """An image with Python and nothing else."""
    image = tmp_path / "image"
    subprocess.run([PYTHON, "-m", "virtualenv", "--quiet", str(image)], check=True)
    package = f"git+file://{this_project.path}@{this_project.commit}"
    gitlab = GitLab(
        folder=tmp_path,
        repository=change.repository,
        api="http://nowhere.invalid",
        variables={"FLEETCTL_PATHS": "fleet", "FLEETCTL_PACKAGE": package},
        machine=packages,
        path=f"{image}/bin:{SYSTEM_PATH}",
    )
    pipeline = gitlab.push(change.head)
    plan = pipeline.jobs["fleetctl-plan"].ran
    assert plan is not None and plan.code == 0, str(plan)
    assert (image / "bin" / "fleetctl").is_file()
    assert json.loads((pipeline.artifacts / "fleetctl-plan" / "fleet.plan").read_text())["fleets"]


class Desk:
    """A clone in which pre-commit was installed, with the page's configuration."""

    def __init__(self, top: Path, home: Path, project: Project, packages: dict[str, str]) -> None:
        self.top = top
        self.env = {
            "PATH": f"{Path(PYTHON).parent}:{SYSTEM_PATH}",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PRE_COMMIT_HOME": str(home / "pre-commit"),
            **WHO,
            **packages,
        }
        (block,) = [b for b in blocks(PAGE.read_text(encoding="utf-8")) if ".pre-commit-config" in b.text]
        text = block.text.replace("https://example.invalid/fleetctl", str(project.path))
        (top / ".pre-commit-config.yaml").write_text(text.replace("REVISION", project.commit))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.top,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    def commit(self, message: str) -> subprocess.CompletedProcess[str]:
        """Stages everything and commits it, as a person does."""
        git(self.top, "add", "--all")
        return self.run("git", "commit", "--message", message)


def test_pre_commit_lets_good_manifests_through_and_stops_others(
    change: Change, this_project: Project, packages: dict[str, str], tmp_path: Path
) -> None:
    workspace: Workspace = change.repository.workspace
    fleet = workspace.path / "fleet.yaml"
    desk = Desk(change.repository.path, tmp_path, this_project, packages)
    installed = desk.run("pre-commit", "install")
    assert installed.returncode == 0, installed.stdout

    laid_out = fleet.read_text()
    good = desk.commit("with hooks")
    assert good.returncode == 0, good.stdout
    assert verdicts(good.stdout) == {"validate": "Passed", "fmt": "Passed"}

    fleet.write_text(laid_out.replace("trust_domain", "trust_domian"))
    bad = desk.commit("a slip of the pen")
    assert bad.returncode == 1, bad.stdout
    assert verdicts(bad.stdout)["validate"] == "Failed"
    assert "fleet/fleet.yaml:4:1 (trust_domian)" in bad.stdout
    assert "did you mean trust_domain?" in bad.stdout

    # What is not laid out is stopped, laid out, and goes through as it is then.
    remarked = f"# Two nodes.\n{laid_out}"
    fleet.write_text(remarked.replace("name: hello", "name:    hello"))
    stopped = desk.commit("a remark, and too many blanks")
    assert stopped.returncode == 1, stopped.stdout
    assert verdicts(stopped.stdout) == {"validate": "Passed", "fmt": "Failed"}
    assert "files were modified by this hook" in stopped.stdout
    assert fleet.read_text() == remarked
    good = desk.commit("a remark")
    assert good.returncode == 0, good.stdout
    assert verdicts(good.stdout) == {"validate": "Passed", "fmt": "Passed"}
    assert git(desk.top, "status", "--porcelain") == ""

    # A file that went, or that a manifest pins, is no YAML that was changed, and is checked all the same.
    (workspace.path / "releases.yaml").rename(tmp_path / "releases.yaml")
    gone = desk.commit("without releases")
    assert gone.returncode == 1, gone.stdout
    assert verdicts(gone.stdout) == {"validate": "Failed", "fmt": "Skipped"}
    (tmp_path / "releases.yaml").rename(workspace.path / "releases.yaml")
    (desk.top / "README.md").write_text("Our fleets.\n")
    page = desk.commit("a page")
    assert page.returncode == 0, page.stdout
    assert verdicts(page.stdout) == {"validate": "Passed", "fmt": "Skipped"}
    everything = desk.run("pre-commit", "run", "--all-files")
    assert everything.returncode == 0, everything.stdout


def verdicts(said: str) -> dict[str, str]:
    """What pre-commit says of each hook, the last word of its line."""
    return dict(re.findall(r"^fleetctl (\w+)\.+(?:\(no files to check\))?(\w+)$", said, re.M))

"""Commands that only look cannot change anything, by construction."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask

# Every way to an object that can act is closed before the command runs.
PROGRAM = """
import sys
from executors import registry
from executors.host import driver

def closed(*args, **kwargs):
    raise AssertionError("an object that can act was made")

registry.driver = closed
driver.HostDriver.__init__ = closed
from fleetctl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def looking(w: Workspace, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *args],
        cwd=w.path,
        env=w.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("command", ["plan", "status", "inventory", "validate"])
def test_no_object_that_can_act_is_ever_made(workspace: Workspace, command: str) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    before = [ask(p, "/pid") for p in workspace.ports]
    done = looking(workspace, command, ".")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [ask(p, "/pid") for p in workspace.ports] == before


def test_the_trap_is_one_that_apply_falls_into(workspace: Workspace) -> None:
    """Otherwise the test above would prove nothing."""
    done = looking(workspace, "apply", ".", "--auto-approve")
    assert done.returncode != 0
    assert "an object that can act was made" in done.stderr


def test_looking_writes_nothing_into_the_state(workspace: Workspace) -> None:
    workspace.apply()
    folder = workspace.path / ".fleetctl"
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    for command in ("plan", "status", "inventory", "runs"):
        workspace.ok(command, ".")
    after = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    assert after == before

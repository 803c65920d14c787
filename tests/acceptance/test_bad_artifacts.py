"""Artifacts and programs that are not what they should be: a clear error, the right code, a truthful next plan."""

from __future__ import annotations

import socket

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask
from tests.acceptance.rights import unprivileged

# The same version gets other bytes here, which a manifest has to allow.
REBUILD = "  allow_rebuild: true\n"


def truthful(w: Workspace) -> str:
    """The next plan's text: it says what there is, also where it refuses to go on from there."""
    planned = w.run("plan", ".")
    assert planned.code in (0, 3), str(planned)
    return planned.out


def test_a_missing_artifact_is_an_error_before_anything_happens(workspace: Workspace) -> None:
    (workspace.path / "artifacts" / "hello-1.0.0.py").unlink()
    done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 1, str(done)
    assert "hello-1.0.0.py" in done.err
    assert "Hint:" in done.err
    assert "Traceback" not in done.err
    assert workspace.node_processes() == []
    workspace.release("1.0.0")
    assert "Plan: 3 to add" in truthful(workspace)
    workspace.apply()


def test_an_unreadable_artifact_is_an_error_before_anything_happens(workspace: Workspace) -> None:
    prefix = unprivileged()
    (workspace.path / "artifacts" / "hello-1.0.0.py").chmod(0)
    done = workspace.run("apply", ".", "--auto-approve", prefix=prefix)
    assert done.code == 1, str(done)
    assert "hello-1.0.0.py" in done.err
    assert "read" in done.err
    assert workspace.node_processes() == []


def test_an_artifact_with_another_digest_never_runs(workspace: Workspace) -> None:
    with (workspace.path / "artifacts" / "hello-1.0.0.py").open("a") as file:
        file.write("# one more line\n")
    done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 1, str(done)
    assert "digest" in done.err or "sha256" in done.err
    assert "hello-1.0.0.py" in done.err
    assert workspace.node_processes() == []


def test_an_artifact_that_exits_at_once_fails_the_rollout_and_explains_itself(workspace: Workspace) -> None:
    workspace.release("1.0.0", "exits")
    workspace.fleet(deadline="5s")
    done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 4, str(done)
    said = done.out + done.err
    assert "web-0" in said
    assert "3" in said, "the exit code"
    assert "cannot go on" in said, "the end of its log"
    assert "\x1b" not in said, "remote text must not command the terminal"
    assert "web-" in truthful(workspace)
    workspace.release("1.0.0")
    workspace.fleet(rollout=REBUILD)
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_an_artifact_that_never_becomes_healthy_stops_the_rollout_within_the_budget(
    workspace: Workspace,
) -> None:
    workspace.apply()
    workspace.release("1.1.0", "sick")
    workspace.fleet("1.1.0", deadline="2s")
    done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 4, str(done)
    assert "503" in done.err, "the last answer of the probe"
    versions = [ask(p) for p in workspace.ports]
    assert versions.count("1.0.0") == 2, "only the first one was touched"
    assert "503" in truthful(workspace), "it says why the floor would not be kept"
    workspace.release("1.1.0")
    workspace.fleet("1.1.0", rollout=REBUILD)
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.1.0"] * 3


def test_auto_revert_brings_the_last_healthy_release_back(workspace: Workspace) -> None:
    workspace.apply()
    workspace.release("1.1.0", "sick")
    workspace.fleet("1.1.0", deadline="2s", rollout="  auto_revert: true\n")
    done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 4, str(done)
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_a_taken_port_is_said(workspace: Workspace) -> None:
    workspace.fleet(deadline="3s")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", workspace.ports[0]))
        taken.listen()
        done = workspace.run("apply", ".", "--auto-approve")
    assert done.code in (1, 4), str(done)
    assert str(workspace.ports[0]) in done.err or "Address already in use" in done.err
    assert "Plan: " in truthful(workspace)
    workspace.fleet()
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


@pytest.mark.parametrize("stubborn", ["stubborn"])
def test_a_node_that_ignores_its_signal_is_killed_after_the_drain_timeout(
    workspace: Workspace, stubborn: str
) -> None:
    workspace.release("1.0.0", stubborn)
    text = (workspace.path / "fleet.yaml").read_text().replace("timeout: 3s", "timeout: 1s")
    workspace.write("fleet.yaml", text)
    workspace.apply()
    workspace.ok("destroy", ".", "--auto-approve")
    assert workspace.node_processes() == []

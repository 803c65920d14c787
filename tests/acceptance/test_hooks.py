"""Hooks and drains through the real command: in their order, once, found again after a kill, settled by hand."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace, wait_for
from tests.acceptance.client import ask

FORMAT = '{from: "1.0.0", to: "1.1.0", mode: rolling, reverse: rolling, changes_format: true}'


@pytest.fixture
def hooked(workspace: Workspace) -> Workspace:
    """A fleet of two nodes at 1.0.0, whose hooks write down what they are told; `./hook-MOMENT` is run first."""
    script = """#!/bin/sh
echo "$FLEETCTL_HOOK ${FLEETCTL_NODE-} ${FLEETCTL_VERSION_BEFORE-} ${FLEETCTL_VERSION-}" >>"$1"
[ ! -x "$2/do-$FLEETCTL_HOOK" ] || exec "$2/do-$FLEETCTL_HOOK"
"""
    path = workspace.write("hook", script)
    path.chmod(0o755)
    workspace.pairs = [FORMAT]
    workspace.write_releases()
    want(workspace, "1.0.0")
    workspace.apply()
    log(workspace).unlink()
    return workspace


def drop_pre_drain(text: str) -> str:
    """Without its hook, a node that refused its drain was never out of service."""
    return "".join(line for line in text.splitlines(keepends=True) if "pre_drain:" not in line)


def log(w: Workspace) -> Path:
    return w.path / "hooks.log"


def want(w: Workspace, version: str, *, revert: bool = False, backup: bool = True) -> None:
    command = f"[{w.path}/hook, {log(w)}, {w.path}]"
    hook = f"[{{command: {command}, timeout: 30s}}]"
    on_host = f"[{{command: {command}, where: host, timeout: 30s}}]"
    w.fleet(
        version,
        count=2,
        reserve=0,
        rollout=f"  auto_revert: {'true' if revert else 'false'}\n  hooks:\n"
        f"    pre_rollout: {hook}\n    pre_drain: {hook}\n    post_start: {on_host}\n    post_rollout: {hook}\n"
        + (f"    backup: {on_host}\n" if backup else ""),
    )
    fleet = w.path / "fleet.yaml"
    fleet.write_text(
        fleet.read_text().replace(
            "timeout: 3s}", "timeout: 3s, http: {path: /drain}, until: {http: {path: /health}}}"
        )
    )


def do(w: Workspace, moment: str, script: str) -> None:
    path = w.write(f"do-{moment}", f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def lines(w: Workspace) -> list[str]:
    return [" ".join(line.split()) for line in log(w).read_text().splitlines()]


def test_each_hook_runs_once_and_in_its_place(hooked: Workspace) -> None:
    want(hooked, "1.1.0")
    plan = hooked.ok("plan", ".")
    for word in (
        "pre_rollout:",
        "pre_drain:",
        "drain: POST /drain",
        "backup:",
        "post_start:",
        "post_rollout:",
    ):
        assert word in plan.out, str(plan)
    hooked.apply()
    one, two = (
        [f"pre_drain {n} 1.0.0 1.1.0", f"backup {n} 1.0.0 1.1.0", f"post_start {n} 1.0.0 1.1.0"]
        for n in ("web-0", "web-1")
    )
    assert lines(hooked) == ["pre_rollout", *one, *two, "post_rollout"]
    assert [ask(p) for p in hooked.ports[:2]] == ["1.1.0"] * 2
    assert hooked.ok("plan", ".").out.startswith("No changes.")


def test_a_change_of_format_without_a_backup_is_refused_with_its_place(hooked: Workspace) -> None:
    want(hooked, "1.1.0", backup=False)
    refused = hooked.run("apply", ".", "--auto-approve")
    assert refused.code == 3, str(refused)
    said = refused.out + refused.err
    assert "releases.yaml:" in said
    assert "rollout.hooks.backup" in said
    assert not log(hooked).exists()


def test_a_failed_backup_stops_the_rollout_and_the_node_goes_back(hooked: Workspace) -> None:
    do(hooked, "backup", "echo 'no room on the backup disk' >&2; exit 7")
    want(hooked, "1.1.0", revert=True)
    failed = hooked.run("apply", ".", "--auto-approve")
    assert failed.code == 4, str(failed)
    assert "exit status 7" in failed.out + failed.err
    assert "no room on the backup disk" in failed.out + failed.err
    wait_for(lambda: [ask(p) for p in hooked.ports[:2]] == ["1.0.0"] * 2, "both nodes serve 1.0.0")
    assert sum("web-1" in line for line in lines(hooked)) == 0, "the second node was not touched"


@pytest.mark.parametrize("revert", [False, True])
def test_a_node_that_refuses_its_drain_is_not_stopped(hooked: Workspace, revert: bool) -> None:
    """Not by the way back either: it serves on."""
    fleet = hooked.path / "fleet.yaml"
    before = [ask(p, "/pid") for p in hooked.ports[:2]]
    want(hooked, "1.1.0", revert=revert)
    fleet.write_text(
        drop_pre_drain(fleet.read_text()).replace("http: {path: /drain}", "http: {path: /drain, status: 418}")
    )
    failed = hooked.run("apply", ".", "--auto-approve")
    assert failed.code == 4, str(failed)
    assert "200 OK from /drain" in failed.out + failed.err
    assert [ask(p, "/pid") for p in hooked.ports[:2]] == before


def test_a_node_left_drained_by_an_interrupt_is_told_and_restarted_by_the_next_apply(
    hooked: Workspace,
) -> None:
    """Between its drain and its stop it runs, and its probe may pass: only the ledger knows that it serves nobody."""
    fleet = hooked.path / "fleet.yaml"
    want(hooked, "1.1.0")
    # A drain that takes long is what people interrupt.
    do(
        hooked,
        "pre_drain",
        f"touch {hooked.path}/draining; while [ ! -e {hooked.path}/go ]; do sleep 0.05; done",
    )
    fleet.write_text(fleet.read_text().replace(", http: {path: /drain}, until: {http: {path: /health}}", ""))
    before = [ask(p, "/pid") for p in hooked.ports[:2]]
    apply = hooked.start("apply", ".", "--auto-approve")
    wait_for(lambda: (hooked.path / "draining").exists(), "the hook to run")
    apply.send_signal(signal.SIGINT)
    wait_for(lambda: "interrupted: finishing" in hooked.said(), "the signal to be heard")
    (hooked.path / "go").touch()
    assert apply.wait(60) == 130, hooked.said()
    assert "drained and not stopped: web-0; the next plan restarts it" in hooked.said()
    assert [ask(p, "/pid") for p in hooked.ports[:2]] == before

    want(hooked, "1.0.0")
    plan = hooked.run("plan", ".", "--detailed-exitcode")
    assert plan.code == 2, str(plan)
    assert "web-0 will be restarted" in plan.out
    assert "drained" in plan.out
    assert "1 to change" in plan.out
    hooked.apply()
    after = [ask(p, "/pid") for p in hooked.ports[:2]]
    assert (after[0] != before[0], after[1] == before[1]) == (True, True)
    assert hooked.run("plan", ".", "--detailed-exitcode").code == 0


def test_a_hook_that_outlives_a_killed_apply_is_found_by_recover(hooked: Workspace) -> None:
    do(hooked, "pre_drain", f"while [ ! -e '{hooked.path}/gate' ]; do sleep 0.05; done")
    want(hooked, "1.1.0")
    process = hooked.start("apply", ".", "--auto-approve")
    wait_for(
        lambda: log(hooked).exists() and "pre_drain web-0 1.0.0 1.1.0" in lines(hooked), "the hook has begun"
    )
    os.kill(process.pid, signal.SIGKILL)
    hooked.end(process)
    (hooked.path / "gate").touch()
    recovered = hooked.run("recover", "--auto-approve")
    assert recovered.code == 0, str(recovered)
    assert lines(hooked).count("pre_drain web-0 1.0.0 1.1.0") == 1
    assert len(lines(hooked)) == 8
    assert [ask(p) for p in hooked.ports[:2]] == ["1.1.0"] * 2


def test_a_hook_without_a_recorded_exit_waits_for_a_person(hooked: Workspace) -> None:
    do(hooked, "pre_rollout", f"echo $PPID >'{hooked.path}/parent'; sleep 60")
    want(hooked, "1.1.0")
    process = hooked.start("apply", ".", "--auto-approve")
    parent = hooked.path / "parent"
    wait_for(lambda: parent.exists() and parent.read_text().strip(), "the hook has begun")
    # The machine goes down: the hook, its script and the command end without a word.
    os.kill(process.pid, signal.SIGKILL)
    hooked.end(process)
    records = (hooked.path / ".fleetctl" / "hooks").iterdir()
    (runner,) = (record / "runner" for record in records if not (record / "exit").exists())
    os.kill(int(runner.read_text().split()[0]), signal.SIGKILL)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{hooked.path}/do-pre_rollout".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
    unknown = hooked.run("recover", "--auto-approve")
    assert unknown.code == 5, str(unknown)
    said = unknown.out + unknown.err
    assert "no exit of it is recorded" in said
    assert "open: pre_rollout of fleet/hello" in said
    operation = next(word for word in said.split() if word.startswith("op-"))
    do(hooked, "pre_rollout", "true")
    hooked.ok("settle", operation, "--as", "succeeded", "--reason", "I saw the announcement")
    hooked.ok("recover", "--auto-approve")
    assert lines(hooked).count("pre_rollout") == 1
    assert [ask(p) for p in hooked.ports[:2]] == ["1.1.0"] * 2

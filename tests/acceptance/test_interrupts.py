"""Ctrl-C, SIGTERM and kill -9, at the prompt and in the middle: nothing lost, nothing locked, the right code."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace, wait_for
from tests.acceptance.client import Watch, ask
from tests.acceptance.terminal import Person


def begin_upgrade(w: Workspace, *options: str) -> None:
    """Three nodes run 1.0.0, and an apply of 1.1.0 is under way: the first node was upgraded."""
    w.apply()
    w.fleet("1.1.0", min_ready="1500ms")
    w.start("apply", ".", "--auto-approve", *options)
    wait_for(
        lambda: ask(w.ports[0]) == "1.1.0" or ask(w.ports[1]) == "1.1.0", "the first node to be upgraded"
    )


def finish(w: Workspace) -> None:
    """The fleet can be brought to where it was wanted, and then there is nothing left to do."""
    w.apply()
    assert [ask(p) for p in w.ports] == ["1.1.0"] * 3
    assert w.ok("plan", ".").out.startswith("No changes.")


def test_ctrl_c_at_the_prompt_changes_nothing_and_holds_nothing(workspace: Workspace) -> None:
    with Person(workspace, "apply", ".") as person:
        person.see("yes")
        person.press_ctrl_c()
        assert person.end() == 130, person.screen
    assert workspace.node_processes() == []
    workspace.apply()


def test_sigterm_at_the_prompt(workspace: Workspace) -> None:
    with Person(workspace, "apply", ".") as person:
        person.see("yes")
        person.signal(signal.SIGTERM)
        assert person.end() == 143, person.screen
    assert workspace.node_processes() == []


def test_no_is_no(workspace: Workspace) -> None:
    with Person(workspace, "apply", ".") as person:
        person.see("yes")
        person.type("no\n")
        assert person.end() == 1, person.screen
        assert "othing was" in person.screen
    assert workspace.node_processes() == []


def test_yes_is_yes_and_a_live_view_shows_what_is_waited_for(workspace: Workspace) -> None:
    with Person(workspace, "apply", ".") as person:
        person.see("yes")
        person.type("yes\n")
        assert person.end() == 0, person.screen
        assert "Plan: " in person.screen
        assert "\x1b[" in person.screen, "a terminal has colour"
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_no_color_is_honoured_on_a_terminal(workspace: Workspace) -> None:
    with Person(workspace, "plan", ".", NO_COLOR="1") as person:
        assert person.end() == 0
        assert "Plan: 3 to add" in person.screen
        assert "\x1b[" not in person.screen


def test_an_apply_that_ends_nodes_shows_what_is_lost_and_wants_the_name(workspace: Workspace) -> None:
    """Scaling down by two: one keeps its data, and nobody says yes to that by habit."""
    workspace.apply()
    workspace.fleet(count=1, reserve=0)
    with Person(workspace, "apply", ".") as person:
        person.see("Type the name of fleet/hello to go on: ")
        assert "This takes 2 nodes down for good:" in person.screen
        assert "node/hello/web-2 (generation 1 of " in person.screen
        assert "1.0.0) on localhost: its data stays" in person.screen
        person.type("yes\n")
        assert person.end() == 1, person.screen
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3
    text = (workspace.path / "fleet.yaml").read_text()
    workspace.write("fleet.yaml", text.replace("retain: true", "retain: false"))
    with Person(workspace, "destroy", ".") as person:
        person.see("Type the name of fleet/hello to go on: ")
        person.type("hell\n")
        assert person.end() == 1, person.screen
    with Person(workspace, "apply", ".") as person:
        person.see("Type the name of fleet/hello to go on: ")
        person.type("hello\n")
        assert person.end() == 0, person.screen
    assert [ask(p) for p in workspace.ports] == ["1.0.0", None, None]


def test_destroy_wants_the_fleets_name_typed(workspace: Workspace) -> None:
    workspace.apply()
    with Person(workspace, "destroy", ".") as person:
        person.see("hello")
        person.see("Type")
        person.type("yes\n")
        assert person.end() == 1, person.screen
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3
    with Person(workspace, "destroy", ".") as person:
        person.see("Type")
        person.type("hello\n")
        assert person.end() == 0, person.screen
    assert workspace.node_processes() == []


@pytest.mark.parametrize("command", ["apply", "destroy"])
def test_without_a_terminal_and_without_approval_it_refuses_with_a_hint(
    workspace: Workspace, command: str
) -> None:
    if command == "destroy":
        workspace.apply()
    before = len(workspace.node_processes())
    done = workspace.run(command, ".", stdin="yes\nhello\n")
    assert done.code == 1, str(done)
    assert "--auto-approve" in done.err
    assert len(workspace.node_processes()) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_finishes_the_step_and_settles(
    workspace: Workspace, number: signal.Signals, code: int
) -> None:
    begin_upgrade(workspace)
    workspace.started[-1].send_signal(number)
    done = workspace.end(workspace.started[-1])
    assert done.code == code, str(done)
    versions = [ask(p) for p in workspace.ports]
    assert None not in versions, "the node under way was finished"
    assert versions.count("1.0.0") >= 1, "nothing new was begun"
    assert workspace.run("plan", ".").code == 0
    finish(workspace)


def test_a_second_signal_leaves_the_step_unknown_and_recover_settles_it(workspace: Workspace) -> None:
    """The node ignores its signal, so its stop takes the whole drain timeout and is surely under way."""
    workspace.release("1.0.0", "stubborn")
    workspace.fleet()
    text = (workspace.path / "fleet.yaml").read_text().replace("timeout: 3s", "timeout: 8s")
    workspace.write("fleet.yaml", text)
    workspace.apply()
    workspace.write("fleet.yaml", text.replace('version: "1.0.0"', 'version: "1.1.0"'))
    process = workspace.start("apply", ".", "--auto-approve")
    wait_for(lambda: "waiting for web-0" in workspace.said(), "the stop to be under way")
    process.send_signal(signal.SIGINT)
    wait_for(lambda: "interrupted: finishing" in workspace.said(), "the first signal to be heard")
    process.send_signal(signal.SIGINT)
    done = workspace.end(process)
    assert done.code == 5, str(done)
    assert "fleetctl recover" in done.err
    assert workspace.run("apply", ".", "--auto-approve").code == 5
    planned = workspace.run("plan", ".")
    assert "fleetctl recover" in planned.err
    recovered = workspace.run("recover", ".", "--auto-approve")
    assert recovered.code == 0, str(recovered)
    finish(workspace)


# Instants of the rollout, as seconds after its start; each falls somewhere else among the effects.
INSTANTS_S = [0.6, 1.0, 1.4, 1.8, 2.4, 3.2]


@pytest.mark.parametrize("instant_s", INSTANTS_S)
def test_kill_9_in_the_middle_then_recover(workspace: Workspace, instant_s: float) -> None:
    """Whatever the instant: apply says 5, plan still prints, recover settles, and no more than one node was down."""
    workspace.apply()
    workspace.fleet("1.1.0", min_ready="300ms")
    with Watch(workspace.ports) as watch:
        process = workspace.start("apply", ".", "--auto-approve")
        time.sleep(instant_s)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        planned = workspace.run("plan", ".")
        assert planned.code in (0, 3), str(planned)  # 3: a floor is not kept while the node is down
        runs = workspace.ok("runs", ".", "--format", "json").json["runs"]
        cut_off = runs[-1]["result"] is None
        again = workspace.run("apply", ".", "--auto-approve") if cut_off else None
        if again is not None:
            assert again.code == 5, str(again)
            assert "fleetctl recover" in again.err
            assert "recover" in planned.err, "plan says so too"
            recovered = workspace.run("recover", ".", "--auto-approve")
            assert recovered.code == 0, str(recovered)
        finish(workspace)
    assert watch.most_down_at_once() <= 1
    assert workspace.ok("recover", ".").code == 0, "nothing is left to recover"


def test_kill_9_at_a_create_makes_nothing_twice(workspace: Workspace) -> None:
    process = workspace.start("apply", ".", "--auto-approve")
    wait_for(lambda: workspace.node_processes(), "a first node process")
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    if workspace.run("apply", ".", "--auto-approve").code == 5:
        assert workspace.run("recover", ".", "--auto-approve").code == 0
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3
    programs = [ask(p, "/pid") for p in workspace.ports]
    assert len(set(programs)) == 3
    servers = [pid for pid in workspace.node_processes() if _runs_program(pid)]
    assert len(servers) == 3, "one process a node and no other"


def _runs_program(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return len(words) > 1 and words[1].endswith(b".py")


def test_two_applies_at_once_the_second_names_the_holder_and_takes_nothing(workspace: Workspace) -> None:
    begin_upgrade(workspace)
    second = workspace.run("apply", ".", "--auto-approve")
    assert second.code == 6, str(second)
    assert str(workspace.started[-1].pid) in second.err
    assert "since" in second.err
    assert workspace.run("plan", ".").code == 0, "reading needs no lock"
    assert workspace.run("status", ".").code == 0
    first = workspace.end(workspace.started[-1])
    assert first.code == 0, str(first)
    assert [ask(p) for p in workspace.ports] == ["1.1.0"] * 3


def test_a_reader_that_goes_away_does_not_stop_the_rollout(workspace: Workspace) -> None:
    """stdout and stderr are closed by the other end; the work goes on."""
    read_end, write_end = os.pipe()
    import subprocess

    from tests.acceptance.cli import FLEETCTL

    process = subprocess.Popen(
        [FLEETCTL, "apply", ".", "--auto-approve"],
        cwd=workspace.path,
        env=workspace.environment(),
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=write_end,
        text=True,
    )
    workspace.started.append(process)
    os.close(write_end)
    os.close(read_end)
    assert process.wait(60) == 0
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_nodes_do_not_inherit_signals_that_a_background_job_ignores(workspace: Workspace) -> None:
    """Under nohup or a script's `&` fleetctl ignores INT, QUIT and HUP; a node must be able to drain by them."""
    workspace.ok(
        "apply", ".", "--auto-approve", prefix=["sh", "-c", "trap '' INT QUIT HUP; exec \"$@\"", "sh"]
    )
    pids = [int(str(ask(port, "/pid"))) for port in workspace.ports]
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        ignored = int(next(x.split()[1] for x in status.splitlines() if x.startswith("SigIgn")), 16)
        assert not ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGQUIT - 1)), hex(ignored)

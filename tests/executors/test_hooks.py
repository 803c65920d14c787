"""Hooks on this machine: run once, recorded from begin to exit, and found again after whoever asked is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from executors.command import Command
from executors.hooks import HookCall
from executors.host import hooks
from executors.host.hooks import RecordedHooks
from executors.host.layout import Layout
from executors.outcome import Outcome
from executors.transports.local import LocalTransport
from tests.executors import toolboxes
from tests.executors.places import wait_for

UID = "cccccccccccccccc"


class Place:
    """A root below which hooks are recorded, and a file in which the test's program counts itself."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(str(folder / "root"))
        self.transport = LocalTransport()
        self.hooks = RecordedHooks(self.transport, self.layout)
        self.count = folder / "count"
        self.node = Path(self.layout.node(UID))
        self.node.mkdir(parents=True)

    def call(self, script: str = "", operation: str = "op-1", **changes: object) -> HookCall:
        whole = f"printf x >>'{self.count}'\n{script}"
        made = HookCall(operation, 1, 5, "backup", ("sh", "-c", whole), timeout_s=20.0)
        return replace(made, **changes)  # type: ignore[arg-type]

    def runs(self) -> int:
        return len(self.count.read_text()) if self.count.exists() else 0

    def run_cut(self, call: HookCall, fault: str) -> None:
        """Runs the script with some of its functions replaced, right before its last line."""
        whole = hooks.command(self.layout, call, "perform")
        head, _, last = whole.stdin.rstrip(b"\n").rpartition(b"\n")
        self.transport.run(Command(whole.argv, head + f"\n{fault}\n".encode() + last + b"\n"))


@pytest.fixture(params=toolboxes.NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    toolboxes.put_on_path(request.param, tmp_path / "bin", monkeypatch)
    yield Place(tmp_path)


def said(outcome: Outcome) -> tuple[str, str]:
    return outcome.state.value, outcome.code


def test_a_hook_runs_once_however_often_it_is_asked_for(place: Place) -> None:
    call = place.call()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: place.hooks.perform(call), range(24)))
    assert place.runs() == 1
    assert {said(a) for a in answers} <= {
        ("succeeded", "hook.done"),
        ("unknown", "hook.running"),
        ("unknown", "hook.no_exit"),
    }
    assert said(place.hooks.perform(call)) == said(place.hooks.lookup(call)) == ("succeeded", "hook.done")
    assert place.runs() == 1


def test_a_hook_that_fails_says_how_and_what_it_printed(place: Place) -> None:
    outcome = place.hooks.perform(place.call("echo 'the balancer does not know it' >&2; exit 3"))
    assert said(outcome) == ("failed", "hook.failed")
    assert outcome.evidence["exit_code"] == 3
    assert "exit status 3" in outcome.detail
    assert "the balancer does not know it" in outcome.detail


def test_a_program_that_is_not_there_fails(place: Place) -> None:
    outcome = place.hooks.perform(place.call(argv=("/no/such/program",)))
    assert said(outcome) == ("failed", "hook.failed")


def test_a_hook_is_ended_at_its_timeout_with_what_it_started(place: Place) -> None:
    outcome = place.hooks.perform(place.call("sleep 50 & sleep 50", timeout_s=1.0))
    assert said(outcome) == ("failed", "hook.timeout")
    assert "within 1 s" in outcome.detail


def test_a_hook_finds_its_variables_and_the_folder_of_its_node(place: Place) -> None:
    (place.node / "env").write_text('OWN="of the node"\n')
    call = place.call(
        'echo "$FLEETCTL_NODE|${OWN-}|$(pwd)"; exit 1',
        where="host",
        uid=UID,
        env={"FLEETCTL_NODE": 'it\'s "$HOME"'},
    )
    assert f'it\'s "$HOME"||{place.node}' in place.hooks.perform(call).detail
    as_node = replace(call, operation_id="op-2", as_node=True)
    assert f"|of the node|{place.node}" in place.hooks.perform(as_node).detail


def test_one_that_was_never_begun_is_barred_by_the_lookup(place: Place) -> None:
    call = place.call()
    assert said(place.hooks.lookup(call)) == ("failed", "hook.not_performed")
    assert said(place.hooks.perform(call)) == ("rejected", "hook.not_performed")
    assert said(place.hooks.perform(place.call(operation="op-2", attempt=2))) == ("succeeded", "hook.done")
    assert place.runs() == 1


def test_one_that_was_cut_off_before_its_exit_stays_unknown_and_is_not_run_again(place: Place) -> None:
    call = place.call()
    place.run_cut(call, "done_with() { kill -KILL $$; }")
    assert place.runs() == 1
    assert said(place.hooks.lookup(call)) == ("unknown", "hook.no_exit")
    assert said(place.hooks.perform(call)) == ("unknown", "hook.no_exit")
    assert place.runs() == 1


def test_one_that_outlives_who_asked_for_it_is_found_with_its_exit(place: Place, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    call = place.call(f"while [ ! -e '{gate}' ]; do sleep 0.05; done; exit 4")
    whole = hooks.command(place.layout, call, "perform")
    asking = subprocess.Popen(
        whole.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert asking.stdin is not None
    asking.stdin.write(whole.stdin)
    asking.stdin.close()
    wait_for(lambda: place.runs() == 1, "the hook has begun")
    # The connection ends: whoever listened is gone, and its shell is told so.
    assert asking.stdout is not None
    asking.stdout.close()
    os.kill(asking.pid, signal.SIGHUP)
    assert said(place.hooks.lookup(call)) == ("unknown", "hook.running")
    gate.touch()
    asking.wait(20)
    found = place.hooks.lookup(call)
    assert said(found) == ("failed", "hook.failed")
    assert found.evidence["exit_code"] == 4


def test_an_older_epoch_runs_nothing_where_a_newer_one_has_acted(place: Place) -> None:
    (place.node / "record").write_text("epoch=6\n")
    outcome = place.hooks.perform(place.call(uid=UID, where="host"))
    assert said(outcome) == ("rejected", "hook.stale_epoch")
    assert place.runs() == 0


def test_records_that_are_old_are_swept(place: Place) -> None:
    if shutil.which("find") is None:
        assert said(place.hooks.perform(place.call())) == ("succeeded", "hook.done")
        return  # a host without it keeps them
    place.hooks.perform(place.call())
    record = Path(place.layout.root) / "hooks" / "op-1"
    old = record.stat().st_mtime - 40 * 86_400
    os.utime(record, (old, old))
    place.hooks.perform(place.call(operation="op-2"))
    assert not record.exists()

"""The pipeline's story: folders that share only a bucket work on one fleet."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.cli import wait_for
from tests.acceptance.client import ask
from tests.acceptance.state.conftest import Folder, Shared


def versions(folder: Folder) -> list[str | None]:
    return [ask(p) for p in folder.ports]


def test_what_one_folder_applied_another_sees_and_continues(shared: Shared) -> None:
    first = shared.folder("first")
    first.apply()
    assert versions(first) == ["1.0.0"] * 3
    assert not (first.path / ".fleetctl" / "state.db").exists(), "nothing of the state is on this disk"

    second = shared.folder("second")
    assert second.ok("plan", ".").out.startswith("No changes.")
    assert "1.0.0" in second.ok("status", ".").out
    second.fleet("1.1.0")
    second.ok("plan", ".", "--out", "up.plan")
    second.ok("apply", "up.plan", "--auto-approve")
    assert versions(second) == ["1.1.0"] * 3

    first.fleet("1.1.0")
    assert first.ok("plan", ".").out.startswith("No changes.")
    assert [r["result"] for r in first.ok("runs", ".", "--format", "json").json["runs"]] == ["succeeded"] * 2


@pytest.mark.timeout(300)
def test_a_second_runner_is_blocked_and_a_killed_one_is_recovered_elsewhere(shared: Shared) -> None:
    first, second = shared.folder("first"), shared.folder("second")
    first.apply()
    for folder in (first, second):
        folder.fleet("1.1.0", min_ready="2500ms")
    run = first.start("apply", ".", "--auto-approve")
    wait_for(lambda: versions(first).count("1.1.0") >= 1, "the first node to be upgraded")
    run.send_signal(signal.SIGSTOP)  # or it might be done before the others have looked
    blocked = second.run("apply", ".", "--auto-approve")
    assert blocked.code == 6, str(blocked)
    assert f"process {run.pid}" in blocked.err
    assert second.run("plan", ".").code == 0, "reading needs no lock"

    run.send_signal(signal.SIGKILL)
    run.wait(10)
    refused = second.run("apply", ".", "--auto-approve")
    assert refused.code == 5, str(refused)
    assert "fleetctl recover" in refused.err
    recovered = second.run("recover", ".", "--auto-approve")
    assert recovered.code == 0, str(recovered)
    assert second.run("apply", ".", "--auto-approve").code == 0
    assert versions(second) == ["1.1.0"] * 3
    runs = second.ok("runs", ".", "--format", "json").json["runs"]
    assert all(r["result"] is not None for r in runs)

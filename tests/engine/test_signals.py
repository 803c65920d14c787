"""SIGINT and SIGTERM: the first finishes what is under way, the second leaves it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from executors.driver import Operation
from executors.outcome import Outcome
from fleetctl.engine.recover import recover
from manifests.errors import ExitCode
from tests.engine import plans
from tests.engine.conftest import Room

THREE = ("web-0", "web-1", "web-2")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_the_first_signal_finishes_the_step_records_it_and_gives_the_lease_back(
    room: Room, number: signal.Signals, code: ExitCode
) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))

    def press(operation: Operation, outcome: Outcome) -> Outcome:
        os.kill(os.getpid(), number)
        threading.Event().wait(1.5)  # long enough for the deciding thread to hear it, however late
        return outcome

    room.world.answer = press
    before = signal.getsignal(number)
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is code
    assert signal.getsignal(number) is before
    assert room.recorded.open_run is None
    assert room.recorded.unknown == ()
    assert room.store.current(plans.FLEET) is None
    assert room.world.log[-1] == "stop web-0#1"
    room.world.answer = None
    assert room.apply(plans.plan(THREE, "1.2.0", room.recorded)).exit_code is ExitCode.OK


def test_the_second_signal_leaves_the_step_unknown_and_exits_5(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    go_on = threading.Event()

    def hang(operation: Operation, outcome: Outcome) -> Outcome:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            go_on.wait(1.5)  # two signals that nobody has heard yet are one
        go_on.wait(20)
        return outcome

    room.world.answer = hang
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    go_on.set()
    assert result.exit_code is ExitCode.UNKNOWN
    assert len(room.recorded.unknown) == 1
    assert room.store.current(plans.FLEET) is None
    room.world.answer = None
    assert recover(room.engine).exit_code is ExitCode.OK
    assert room.world.versions() == dict.fromkeys(THREE, "1.1.0")
    assert set(room.world.performed.values()) == {1}

"""Lost answers: looked up and never guessed; what stays unknown ends with 5 and is recovered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.driver import Operation
from executors.outcome import Outcome, OutcomeState, unknown
from executors.transport import OutcomeLost
from fleetctl.engine import operate
from fleetctl.engine.apply import Result
from fleetctl.engine.recover import NOTHING, recover, runs
from fleetctl.ledger.operations import By, State
from manifests.errors import ExitCode
from planner.plan import FleetPlan
from tests.engine import plans
from tests.engine.conftest import Room
from tests.engine.world import FakeDriver

THREE = ("web-0", "web-1", "web-2")


def upgraded(room: Room) -> bool:
    return room.world.versions() == dict.fromkeys(THREE, "1.1.0") and room.world.available() == list(THREE)


def test_an_answer_lost_after_the_effect_is_found_and_the_effect_not_repeated(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))

    def lose(operation: Operation, outcome: Outcome) -> Outcome:
        raise OutcomeLost("connection reset")

    room.world.answer = lose
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.OK
    assert upgraded(room)
    assert set(room.world.performed.values()) == {1}
    assert set(room.world.starts.values()) == {1}


def test_an_operation_that_never_arrived_is_tried_again_under_the_next_attempt(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    lost: list[str] = []

    def vanish(operation: Operation) -> None:
        if operation.attempt == 1:
            lost.append(operation.operation_id)
            raise OutcomeLost("connection reset")

    room.world.before = vanish
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.OK
    assert upgraded(room)
    run = runs(room.store, plans.FLEET)[-1]
    assert {run.attempts[o].state for o in lost} == {State.FAILED}
    assert {run.attempts[o].by for o in lost} == {By.LOOKUP}
    assert {r.attempt for r in run.operations.values()} == {2}


def test_what_no_lookup_decides_stays_unknown_with_exit_5_and_is_recovered_later(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "LOOKUP_DELAYS_S", (0.01, 0.01))
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    blind = True

    def lose(operation: Operation, outcome: Outcome) -> Outcome:
        return unknown("fake.lost", "no answer") if blind else outcome

    lookup = FakeDriver.lookup
    monkeypatch.setattr(
        FakeDriver,
        "lookup",
        lambda self, op: unknown("fake.blind", "cannot see") if blind else lookup(self, op),
    )
    room.world.answer = lose
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.UNKNOWN
    assert "web-0 stop" in result.summary
    assert "cannot see" in result.summary
    assert len(room.recorded.unknown) == 1
    assert room.store.current(plans.FLEET) is None
    again = recover(room.engine)
    assert again.exit_code is ExitCode.UNKNOWN
    blind = False
    settled = recover(room.engine)
    assert settled.exit_code is ExitCode.OK
    assert upgraded(room)
    assert set(room.world.performed.values()) == {1}


def test_recover_with_nothing_open_says_so(room: Room) -> None:
    assert recover(room.engine) == Result(ExitCode.OK, NOTHING)
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert recover(room.engine).summary == NOTHING


def test_a_plan_of_two_fleets_is_recovered_with_the_fleet_that_was_not_begun(room: Room) -> None:
    class Crash(BaseException):
        """The process ends here."""

    one = plans.plan(("web-0",), "1.0.0", room.recorded)
    uid = one.fleets[0].changes[0].uid
    other = FleetPlan.model_validate_json(one.fleets[0].model_dump_json().replace(uid, "another"))
    second = other.model_copy(update={"fleet": "core"})
    both = plans.sealed(one.model_copy(update={"fleets": (one.fleets[0], second)}))

    def die(operation: Operation) -> None:
        raise Crash

    room.world.before = die
    with pytest.raises(Crash):
        room.apply(both)
    assert room.store.fleets() == [plans.FLEET]
    room.world.before = None
    result = recover(replace(room.engine))
    assert [(f.fleet, f.exit_code) for f in result.fleets] == [("edge", 0), ("core", 0)]


@pytest.mark.parametrize("state", [OutcomeState.FAILED, OutcomeState.REJECTED])
def test_an_effect_that_failed_fails_its_node(room: Room, state: OutcomeState) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))

    def refuse(operation: Operation, outcome: Outcome) -> Outcome:
        if operation.effect.value == "start":
            return Outcome(state, "fake.port", "the port is taken")
        return outcome

    room.world.answer = refuse
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.FAILED
    assert "web-0: the port is taken" in result.summary

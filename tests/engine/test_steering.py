"""pause, resume, promote, abort, settle: the words of a person, live and afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.clock import rfc3339
from executors.driver import Operation
from executors.outcome import Outcome, unknown
from fleetctl.engine import operate
from fleetctl.engine.controls import Verb, say
from fleetctl.engine.errors import NoOpenRun, NotSettled, RunWaiting
from fleetctl.engine.recover import recover
from fleetctl.engine.settle import settle
from fleetctl.engine.steer import steer
from fleetctl.ledger.operations import By, State
from manifests.errors import ExitCode
from planner.plan import Plan
from tests.engine import plans
from tests.engine.conftest import CLOCK, Room
from tests.engine.world import FakeDriver

THREE = ("web-0", "web-1", "web-2")


def speak_at(room: Room, effect: str, verb: Verb) -> None:
    """Another process says this while the run performs its first such effect."""
    said: list[Verb] = []

    def speak(operation: Operation, outcome: Outcome) -> Outcome:
        if operation.effect.value == effect and not said:
            said.append(verb)
            say(room.store, plans.FLEET, verb, replace(room.engine.holder, who="anna"), rfc3339(CLOCK.now()))
        return outcome

    room.world.answer = speak


def settings(plan: Plan, **changes: object) -> Plan:
    fleet = plan.fleets[0]
    rollout = fleet.rollout.model_copy(update=changes)
    return plans.sealed(plan.model_copy(update={"fleets": (fleet.model_copy(update={"rollout": rollout}),)}))


def test_a_paused_rollout_finishes_the_node_under_way_and_waits(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    speak_at(room, "stop", Verb.PAUSE)
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.WAITING
    assert "1 of 3 nodes done" in result.summary
    assert "paused by anna" in result.summary
    assert room.world.available() == list(THREE)
    assert room.store.current(plans.FLEET) is None
    with pytest.raises(RunWaiting, match="paused by anna"):
        room.apply(plans.plan(THREE, "1.2.0", room.recorded))
    assert recover(room.engine).exit_code is ExitCode.WAITING
    resumed = steer(room.engine, plans.FLEET, Verb.RESUME)
    assert (resumed.exit_code, resumed.summary) == (ExitCode.OK, "3 of 3 nodes done")
    assert set(room.world.performed.values()) == {1}


def test_an_aborted_rollout_ends_with_4_and_touches_no_further_node(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    speak_at(room, "stop", Verb.ABORT)
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded, auto_revert=True))
    assert result.exit_code is ExitCode.FAILED
    assert "1 of 3 nodes done, 2 not begun; aborted by anna" in result.summary
    assert room.recorded.open_run is None
    assert room.world.versions() == {"web-0": "1.1.0", "web-1": "1.0.0", "web-2": "1.0.0"}


def test_a_waiting_rollout_can_be_aborted(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    speak_at(room, "stop", Verb.PAUSE)
    room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert steer(room.engine, plans.FLEET, Verb.ABORT).exit_code is ExitCode.FAILED
    assert room.recorded.open_run is None


def test_a_canary_waits_for_its_promotion_and_resume_is_none(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    plan = plans.plan(THREE, "1.1.0", room.recorded, canary=1)
    result = room.apply(settings(plan, canary_phase=1, promotion="manual"))
    assert result.exit_code is ExitCode.WAITING
    assert "1 of 3 nodes done, 2 not begun; the canary is healthy" in result.summary
    assert steer(room.engine, plans.FLEET, Verb.RESUME).exit_code is ExitCode.WAITING
    assert room.world.versions()["web-1"] == "1.0.0"
    assert steer(room.engine, plans.FLEET, Verb.PROMOTE).exit_code is ExitCode.OK
    assert room.world.versions() == dict.fromkeys(THREE, "1.1.0")


def test_a_canary_that_gets_sick_while_it_bakes_ends_the_rollout(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    plan = settings(plans.plan(THREE, "1.1.0", room.recorded, canary=1), canary_phase=1, bake_ms=700)

    class Watch:
        def on_report(self, fleet: str, report: object) -> None:
            if "bakes" in report.text:  # type: ignore[attr-defined]
                room.world.sick.add("1.1.0")

    result = room.apply(plan, observer=Watch())
    assert result.exit_code is ExitCode.FAILED
    assert "the canary web-0 did not stay healthy" in result.summary
    assert room.world.versions()["web-1"] == "1.0.0"


def test_a_canary_that_stays_healthy_is_followed_by_the_rest(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    plan = settings(plans.plan(THREE, "1.1.0", room.recorded, canary=1), canary_phase=1, bake_ms=300)
    assert room.apply(plan).exit_code is ExitCode.OK


def test_without_a_run_there_is_nobody_to_tell(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    with pytest.raises(NoOpenRun, match="no run to pause"):
        steer(room.engine, plans.FLEET, Verb.PAUSE)


@pytest.mark.parametrize("verdict", ["succeeded", "failed"])
def test_a_person_settles_what_nothing_else_can(
    room: Room, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    """The third node's start is lost for good. Said to have succeeded or not, the run goes on from there."""
    monkeypatch.setattr(operate, "LOOKUP_DELAYS_S", (0.01,))
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))

    def forget(operation: Operation, outcome: Outcome) -> Outcome:
        lost = operation.effect.value == "start" and operation.node == "web-2"
        return unknown("fake.lost", "no answer") if lost else outcome

    monkeypatch.setattr(FakeDriver, "lookup", lambda self, op: unknown("fake.blind", "cannot see"))
    room.world.answer = forget
    if verdict == "failed":
        original = FakeDriver._guarded

        def vanish(self: FakeDriver, op: Operation) -> Outcome:
            lost = op.effect.value == "start" and op.node == "web-2" and op.attempt == 1
            return unknown("fake.lost", "no answer") if lost else original(self, op)

        monkeypatch.setattr(FakeDriver, "_guarded", vanish)
    assert room.apply(plans.plan(THREE, "1.1.0", room.recorded)).exit_code is ExitCode.UNKNOWN
    (operation_id,) = room.recorded.unknown
    record = settle(room.engine, operation_id, verdict, "I looked")
    assert (record.state, record.by) == (State(verdict), By.OPERATOR)
    assert record.evidence["detail"] == "I looked"
    assert room.recorded.unknown == ()
    room.world.answer = None
    assert recover(room.engine).exit_code is ExitCode.OK
    assert room.world.versions() == dict.fromkeys(THREE, "1.1.0")
    assert set(room.world.starts.values()) == {1}


def test_what_is_not_open_is_not_settled(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    with pytest.raises(NotSettled):
        settle(room.engine, "op-0", "failed", "because")


def test_a_word_is_heard_after_others_have_held_the_fleet_meanwhile(room: Room) -> None:
    """Each acquisition takes an epoch, also one that wrote nothing: the word needs a newer one."""
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    speak_at(room, "start", Verb.PAUSE)
    assert room.apply(plans.plan(THREE, "1.1.0", room.recorded)).exit_code is ExitCode.WAITING
    room.store.release(room.store.acquire(plans.FLEET, room.engine.holder, 30.0))
    assert steer(room.engine, plans.FLEET, Verb.RESUME).exit_code is ExitCode.OK

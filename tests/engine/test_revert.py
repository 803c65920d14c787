"""The way back: once, over edges that allow it, within the reserve, and reported as a rollout that failed."""

from __future__ import annotations

from typing import Any

import pytest

from executors.driver import Operation
from executors.outcome import Outcome, failed
from manifests.errors import ExitCode
from planner.plan import Plan
from tests.engine import plans
from tests.engine.conftest import Room

FIVE = tuple(f"web-{n}" for n in range(5))


def last_of(room: Room, plan: Plan) -> Any:
    """The rollout fails at its last node, when the others are done."""

    def refuse(operation: Operation, outcome: Outcome) -> Outcome:
        if operation.effect.value == "start" and operation.node == FIVE[-1] and operation.generation == 2:
            return failed("fake.port", "the port is taken", performed="no")
        return outcome

    room.world.answer = refuse
    return room.apply(plan)


def test_nodes_that_were_done_go_back_too_within_the_reserve(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    seen: list[int] = []
    room.world.on_change = lambda: seen.append(len(room.world.available()))
    plan = plans.plan(FIVE, "1.1.0", room.recorded, auto_revert=True, max_unavailable=2, reserve=2)
    result = last_of(room, plan)
    assert result.exit_code is ExitCode.FAILED
    assert "4 of 5 nodes done, 1 failed (web-4); the rollout failed and was undone" in result.summary
    assert room.world.versions() == dict.fromkeys(FIVE, "1.0.0")
    assert min(seen) >= 2
    assert room.replayed().runs[-1].result == "reverted"


@pytest.mark.parametrize("reverse", ["never", "evidence", "full"])
def test_an_edge_that_does_not_lead_back_is_not_crossed(room: Room, reverse: str) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    result = last_of(room, plans.plan(FIVE, "1.1.0", room.recorded, auto_revert=True, reverse=reverse))
    assert result.exit_code is ExitCode.FAILED
    assert "undone" not in result.summary
    assert room.world.versions()["web-0"] == "1.1.0"
    assert "no declared way leads from 1.1.0 back to 1.0.0" in room.watcher.text()


def test_a_full_way_back_stops_all_before_it_starts_any_where_downtime_was_accepted(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    plan = plans.plan(FIVE, "1.1.0", room.recorded, auto_revert=True, reverse="full", max_unavailable=5)
    fleet = plan.fleets[0]
    rollout = fleet.rollout.model_copy(update={"accept_downtime": True})
    plan = plans.sealed(plan.model_copy(update={"fleets": (fleet.model_copy(update={"rollout": rollout}),)}))
    live: list[set[str]] = []
    room.world.on_change = lambda: live.append(set(room.world.versions().values()))
    result = last_of(room, plan)
    assert "was undone" in result.summary
    assert room.world.versions() == dict.fromkeys(FIVE, "1.0.0")
    back = live[live.index({"1.1.0"}) :]
    assert all(len(versions) <= 1 for versions in back)


def test_a_change_of_configuration_is_undone_over_any_edge(room: Room) -> None:
    """The release stays, so no pair is asked: a bad environment is undone as well."""
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    plan = plans.plan(FIVE, "1.1.0", room.recorded, auto_revert=True, reverse="never")
    text = (
        plan.fleets[0]
        .model_dump_json()
        .replace('"1.1.0"', '"1.0.0"')
        .replace(plans.digest("1.1.0"), plans.digest("1.0.0"))
    )
    fleet = type(plan.fleets[0]).model_validate_json(text.replace('"env":{}', '"env":{"BAD":"yes"}'))
    plan = plans.sealed(plan.model_copy(update={"fleets": (fleet,)}))
    result = last_of(room, plan)
    assert "was undone" in result.summary
    assert all("env.BAD" not in n.fields for n in room.world.nodes.values())


def test_failures_within_the_number_allowed_do_not_turn_the_rollout_back(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    plan = plans.plan(FIVE, "1.1.0", room.recorded, auto_revert=True, max_failures=1, max_unavailable=2)
    result = last_of(room, plan)
    assert result.exit_code is ExitCode.FAILED
    assert result.summary == "4 of 5 nodes done, 1 failed (web-4); within the 1 failures allowed"
    assert room.world.versions()["web-0"] == "1.1.0"


def test_a_way_back_that_fails_takes_down_nothing_that_serves(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))

    def refuse(operation: Operation, outcome: Outcome) -> Outcome:
        bad = operation.effect.value == "start" and (operation.node == FIVE[-1] or operation.generation == 3)
        return failed("fake.port", "the port is taken") if bad else outcome

    room.world.answer = refuse
    plan = plans.plan(FIVE, "1.1.0", room.recorded, auto_revert=True, reserve=1)
    result = room.apply(plan)
    assert result.exit_code is ExitCode.FAILED
    assert "the way back failed for" in result.summary
    # The node that failed, and at most what the window had begun before that was known.
    assert len(room.world.available()) >= 3

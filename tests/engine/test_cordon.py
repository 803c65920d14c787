"""cordon: a word about a host, in the journal of every fleet, whether it was applied before or is under way."""

from __future__ import annotations

import pytest

from executors.driver import Operation
from executors.outcome import Outcome
from fleetctl.engine.apply import apply
from fleetctl.engine.cordon import mark
from fleetctl.ledger import audit
from manifests.errors import ExitCode, StaleError
from tests.engine import plans
from tests.engine.conftest import Room

THREE = ("web-0", "web-1", "web-2")


def test_the_word_is_kept_once_and_taken_back(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert mark(room.engine, [plans.FLEET], "h1", cordoned=True) == [plans.FLEET]
    assert mark(room.engine, [plans.FLEET], "h1", cordoned=True) == []
    assert room.recorded.cordoned == {"h1"}
    assert mark(room.engine, [plans.FLEET], "h1", cordoned=False) == [plans.FLEET]
    assert room.recorded.cordoned == frozenset()
    assert audit.verify(room.store, plans.FLEET).runs == 1


def test_it_may_be_the_first_word_of_a_fleet_whose_lineage_then_stays(room: Room) -> None:
    mark(room.engine, [plans.FLEET], "h9", cordoned=True)
    before = room.recorded
    assert (before.cordoned, before.nodes, before.lineage is None) == ({"h9"}, {}, False)
    result = room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert result.exit_code is ExitCode.OK
    assert (room.recorded.lineage, room.recorded.cordoned) == (before.lineage, {"h9"})


def test_a_plan_that_starts_nodes_there_is_stale_before_anything_is_touched(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    made = plans.plan(THREE, "1.1.0", room.recorded)
    mark(room.engine, [plans.FLEET], "h1", cordoned=True)
    with pytest.raises(StaleError, match="cordoned since"):
        apply(made, room.engine)
    assert {n.spec.version for n in room.recorded.nodes.values() if n.spec} == {"1.0.0"}
    mark(room.engine, [plans.FLEET], "h1", cordoned=False)
    assert apply(made, room.engine).exit_code is ExitCode.OK


def test_a_rollout_that_is_under_way_is_finished_as_planned(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    said: list[str] = []

    def speak(operation: Operation, outcome: Outcome) -> Outcome:
        if not said:
            said.extend(mark(room.engine, [plans.FLEET], "h1", cordoned=True))
        return outcome

    room.world.answer = speak
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.OK
    assert {n.spec.version for n in room.recorded.nodes.values() if n.spec} == {"1.1.0"}
    assert room.recorded.cordoned == {"h1"}

"""rollback: to what was last healthy before the newest rollout, and only to that."""

from __future__ import annotations

import pytest

from executors.driver import Operation
from executors.outcome import Outcome, failed
from fleetctl.engine.apply import apply
from fleetctl.engine.rollback import way_back
from manifests.errors import ExitCode, RefusedError
from planner.plan import StepKind
from tests.engine import plans
from tests.engine.conftest import Room

THREE = ("web-0", "web-1", "web-2")


def versions(room: Room) -> dict[str, str]:
    way = way_back(room.replayed())
    names = {n.uid: n.name for n in room.recorded.nodes.values()}
    return {names[uid]: spec.version for uid, spec in way.back.items()}


def test_after_two_failed_versions_the_target_is_the_one_that_was_healthy(room: Room) -> None:
    """R4: history 1 good, 2 failed, 3 failed."""
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.world.dead |= {"2.0.0", "3.0.0"}
    room.apply(plans.plan(THREE, "2.0.0", room.recorded))
    room.apply(plans.plan(THREE, "3.0.0", room.recorded))
    assert versions(room) == {"web-0": "1.0.0"}


def test_every_node_that_the_run_touched_goes_back_and_no_other(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert versions(room) == dict.fromkeys(THREE, "1.0.0")
    way = way_back(room.replayed())
    assert [str(t) for t in way.targets] == [f"node/edge/{name}" for name in THREE]


def test_a_run_without_an_effect_is_not_the_one_that_is_undone(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    room.world.down_hosts.add("h1")
    room.apply(plans.plan(THREE, "1.2.0", room.recorded, progress_ms=300))
    room.world.down_hosts.clear()
    assert versions(room) == dict.fromkeys(THREE, "1.0.0")


def test_a_history_of_one_is_refused(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    with pytest.raises(RefusedError, match="never healthy before that run"):
        way_back(room.replayed())


def test_no_history_is_refused(room: Room) -> None:
    with pytest.raises(RefusedError, match="has no run"):
        way_back(room.replayed())


def test_a_rollout_that_was_undone_already_leaves_nothing_to_undo(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.world.sick.add("1.1.0")
    room.apply(plans.plan(THREE, "1.1.0", room.recorded, auto_revert=True))
    with pytest.raises(RefusedError, match="last healthy with"):
        way_back(room.replayed())


def test_a_run_that_finished_what_a_failed_one_had_begun_is_undone_with_it(room: Room) -> None:
    """Otherwise the nodes of the first half would stay on the new version."""
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    starts = iter([False, True])

    def fail(operation: Operation, outcome: Outcome) -> Outcome:
        broken = operation.effect is StepKind.START and next(starts, False)
        return failed("test.broken", "it does not start") if broken else outcome

    room.world.answer = fail
    assert room.apply(plans.plan(THREE, "1.1.0", room.recorded)).exit_code is ExitCode.FAILED
    room.world.answer = None
    assert versions(room) == dict.fromkeys(("web-0", "web-1"), "1.0.0")
    rest = plans.plan(("web-1", "web-2"), "1.1.0", room.recorded)
    assert room.apply(rest).exit_code is ExitCode.OK
    assert versions(room) == dict.fromkeys(THREE, "1.0.0")


def test_a_rollback_belongs_to_what_it_undoes(room: Room) -> None:
    """Done twice, it does not go forward again."""
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    apply(plans.plan(THREE, "1.0.0", room.recorded), room.engine, "rollback")
    with pytest.raises(RefusedError, match="last healthy with"):
        way_back(room.replayed())
    room.apply(plans.plan(THREE, "1.2.0", room.recorded))
    assert versions(room) == dict.fromkeys(THREE, "1.0.0")

"""What may be begun: by what is available now, whoever broke the rest."""

from __future__ import annotations

import pytest

from executors.outcome import Outcome
from manifests.errors import ExitCode
from planner.recorded import derive_uid
from tests.engine import plans
from tests.engine.conftest import Room

FIVE = tuple(f"web-{n}" for n in range(5))


def uid(name: str) -> str:
    return derive_uid(plans.FLEET, name, 0)


def kill(room: Room, name: str) -> None:
    node = room.world.nodes[uid(name)]
    node.running, node.exited = False, True


def lowest(room: Room) -> list[int]:
    seen: list[int] = []
    room.world.on_change = lambda: seen.append(len(room.world.available()))
    return seen


@pytest.mark.parametrize("width", [1, 2, 3])
def test_never_more_are_down_than_the_window_allows_and_all_of_it_is_used(room: Room, width: int) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    seen = lowest(room)
    result = room.apply(plans.plan(FIVE, "1.1.0", room.recorded, max_unavailable=width))
    assert result.exit_code is ExitCode.OK
    assert min(seen) == 5 - width


def test_a_node_that_died_before_the_rollout_uses_up_the_budget_and_is_repaired_first(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    kill(room, "web-4")
    seen = lowest(room)
    result = room.apply(plans.plan(FIVE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.OK
    assert min(seen) == 4
    assert room.world.log[10] == "stop web-4#1"


def test_a_node_outside_of_the_plan_that_dies_meanwhile_stops_the_rollout_at_the_floor(room: Room) -> None:
    """Four of five are to be replaced; the fifth, which the plan leaves alone, dies after the second."""
    room.apply(plans.plan(FIVE, "1.1.0", room.recorded))
    room.apply(plans.plan(FIVE[:4], "1.0.0", room.recorded))
    plan = plans.plan(FIVE, "1.1.0", room.recorded, progress_ms=2500)
    assert not [s for s in plan.fleets[0].steps if s.node == "web-4"]
    stops: list[int] = []

    def die_after_second(operation: object, outcome: Outcome) -> Outcome:
        if operation.effect.value == "stop":  # type: ignore[attr-defined]
            stops.append(len(room.world.available()))
            if len(stops) == 2:
                kill(room, "web-4")
        return outcome

    room.world.answer = die_after_second
    result = room.apply(plan)
    assert result.exit_code is ExitCode.FAILED
    assert stops == [4, 4]
    assert "no node became healthy for 2 s (4 of 5 available in fleet, floor 4)" in result.summary
    assert len(room.world.available()) == 4


def test_the_bound_per_host_holds(room: Room) -> None:
    hosts = {"web-0": "h1", "web-1": "h1", "web-2": "h1", "web-3": "h2", "web-4": "h2"}
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded, hosts=hosts))
    down: list[dict[str, int]] = []

    def count() -> None:
        gone = [n.host for n in room.world.nodes.values() if not n.running]
        down.append({h: gone.count(h) for h in ("h1", "h2")})

    room.world.on_change = count
    plan = plans.plan(FIVE, "1.1.0", room.recorded, hosts=hosts, max_unavailable=3, per_host=1)
    assert room.apply(plan).exit_code is ExitCode.OK
    assert max(d["h1"] for d in down) == 1
    assert max(d["h2"] for d in down) == 1
    assert any(d == {"h1": 1, "h2": 1} for d in down)


def test_a_host_that_does_not_answer_counts_as_down_and_fails_its_nodes(room: Room) -> None:
    hosts = {"web-4": "h2"}
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded, hosts=hosts))
    room.world.down_hosts.add("h2")
    result = room.apply(plans.plan(FIVE, "1.1.0", room.recorded, hosts=hosts, progress_ms=1500))
    assert result.exit_code is ExitCode.FAILED
    assert room.world.versions()["web-0"] == "1.0.0"
    assert "web-4: no route" in result.summary


@pytest.mark.parametrize(("allowed", "begun"), [(0, 1), (1, 2), (2, 3)])
def test_failures_are_counted_over_the_whole_rollout(room: Room, allowed: int, begun: int) -> None:
    """R6: stopped exactly when the number is exceeded; what was not begun stays as it was."""
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    room.world.dead.add("1.1.0")
    result = room.apply(
        plans.plan(FIVE, "1.1.0", room.recorded, max_failures=allowed, max_unavailable=5, window=1)
    )
    assert result.exit_code is ExitCode.FAILED
    assert f"{begun} failed" in result.summary
    assert f"{5 - begun} not begun" in result.summary
    assert len(room.world.available()) == 5 - begun


def test_the_last_node_and_the_only_node_are_judged_like_any_other(room: Room) -> None:
    """R2."""
    room.apply(plans.plan(("web-0",), "1.0.0", room.recorded))
    room.world.dead.add("1.1.0")
    result = room.apply(plans.plan(("web-0",), "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.FAILED
    assert "it ended by itself" in result.summary


def test_a_canary_that_fails_stops_the_rollout_even_where_failures_are_allowed(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    room.world.dead.add("1.1.0")
    result = room.apply(plans.plan(FIVE, "1.1.0", room.recorded, canary=1, max_failures=3, max_unavailable=3))
    assert result.exit_code is ExitCode.FAILED
    assert "1 failed (web-0), 4 not begun" in result.summary


def test_a_target_that_changes_during_the_rollout_is_not_touched(room: Room) -> None:
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))

    def meddle(operation: object, outcome: Outcome) -> Outcome:
        room.world.nodes[uid("web-4")].version = "6.6.6"
        return outcome

    room.world.answer = meddle
    result = room.apply(plans.plan(FIVE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.STALE
    assert "web-4 has changed since the plan was made" in result.summary
    assert room.world.nodes[uid("web-4")].generation == 1
    assert room.recorded.open_run is None

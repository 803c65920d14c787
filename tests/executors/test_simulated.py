"""The simulated world: the same seed gives the same story, and lost answers are really lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from executors.simulated.chance import Chance
from executors.simulated.faults import Fault, Rates, Trouble
from executors.simulated.world import SimulatedWorld
from executors.transport import TransportError
from planner.observed import HealthState, NodeState
from planner.plan import StepKind
from tests.executors.places import SECRETS, Node, SimulatedPlace, operation, seen

CREATE, START, STOP = StepKind.CREATE, StepKind.START, StepKind.STOP
UID = "aaaaaaaaaaaaaaaa"


@pytest.fixture
def place() -> SimulatedPlace:
    return SimulatedPlace()


@pytest.fixture
def node(place: SimulatedPlace) -> Node:
    return Node(place, UID)


def story(seed: int) -> list[str]:
    place = SimulatedPlace()
    place.world = SimulatedWorld(seed, Rates(lost_before=0.2, lost_after=0.2, lost_middle=0.1, fails=0.1))
    said = []
    for n in range(40):
        uid = f"u{n}"
        for effect in (CREATE, START):
            op = operation(effect, uid, place.spec(uid), operation_id=f"{uid}/{effect}")
            said.append(place.driver().perform(op, SECRETS).state.value)
            said.append(place.driver().lookup(op).state.value)
    return said


def test_a_seed_replays_and_another_seed_differs() -> None:
    assert story(1) == story(1)
    assert story(1) != story(2)
    assert set(story(1)) >= {"succeeded", "failed", "unknown"}


def test_chance_is_fair_and_depends_on_the_question_only() -> None:
    chance = Chance(7)
    drawn = [chance.fraction(str(n)) for n in range(2000)]
    assert 0.45 < sum(drawn) / len(drawn) < 0.55
    assert Chance(7).fraction("x") == chance.fraction("x") != Chance(8).fraction("x")
    assert not chance.happens(0.0, "x")
    assert chance.happens(1.0, "x")


@pytest.mark.parametrize(
    ("fault", "said", "found", "starts"),
    [
        (Fault.LOST_BEFORE, "unknown", "host.not_performed", 0),
        (Fault.LOST_MIDDLE, "unknown", "host.not_started", 0),
        (Fault.LOST_AFTER, "unknown", "", 1),
        (Fault.LOST_LATE, "unknown", "host.not_performed", 0),
        (Fault.UNREACHABLE, "failed", "host.not_performed", 0),
        (Fault.FAILS, "failed", "host.simulated", 0),
    ],
)
def test_each_fault_leaves_what_it_says(
    node: Node, place: SimulatedPlace, fault: Fault, said: str, found: str, starts: int
) -> None:
    node.do(CREATE)
    place.world.trouble.append(Trouble(fault, effect=START))
    start = node.operation(START)
    assert node.driver.perform(start, SECRETS).state == said
    assert node.driver.lookup(start).code == found
    assert place.world.starts(UID) == starts


def test_an_effect_on_its_way_is_barred_by_a_lookup_and_happens_without_one(
    node: Node, place: SimulatedPlace
) -> None:
    node.do(CREATE)
    for expected, look in ((0, True), (1, False)):
        place.world.trouble.append(Trouble(Fault.LOST_LATE, effect=START))
        start = node.operation(START)
        node.driver.perform(start, SECRETS)
        if look:
            assert node.driver.lookup(start).code == "host.not_performed"
        assert place.world.deliver() == 1
        assert place.world.starts(UID) == expected


def test_an_unreachable_host_answers_nothing(node: Node, place: SimulatedPlace) -> None:
    node.run()
    place.world.unreachable.add("h1")
    host = node.driver.observe(frozenset())
    assert (host.reachable, host.nodes) == (False, ())
    assert node.driver.lookup(node.operation(START)).state == "unknown"
    with pytest.raises(TransportError):
        node.driver.stage(*place.artifact())


def test_sick_versions_never_pass_and_slow_ones_pass_later(node: Node, place: SimulatedPlace) -> None:
    node.run()
    place.world.never_healthy.add("1.0.0")
    from executors.driver import ProbeTarget

    assert node.driver.probe(ProbeTarget(UID, node.spec)).state is HealthState.FAILING


def test_a_world_in_a_file_is_seen_by_another_process(tmp_path: Path, place: SimulatedPlace) -> None:
    path = tmp_path / "world.json"
    first, second = (SimulatedWorld(path=path) for _ in range(2))
    spec = place.spec(UID)
    first.driver("h1").perform(operation(CREATE, UID, spec), SECRETS)
    first.driver("h1").perform(operation(START, UID, spec), SECRETS)
    found = seen(second.driver("h1"), UID)
    assert found is not None
    assert found.state is NodeState.RUNNING
    second.kill(UID)
    assert seen(first.driver("h1"), UID).exit_code == 137  # type: ignore[union-attr]

"""apply: a plan carried out over real threads and a real store, on simulated hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.engine.errors import UnknownOutcome
from fleetctl.ledger.ports import LeaseHeld
from fleetctl.stores.memory import MemoryStore
from fleetctl.stores.processes import this_process
from fleetctl.stores.sqlite import SqliteStore
from manifests.errors import ExitCode, StaleError
from tests.engine import plans
from tests.engine.conftest import CLOCK, PROCESSES, Room, made


@pytest.fixture(params=["memory", "sqlite"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    if request.param == "memory":
        yield from made(MemoryStore(CLOCK, PROCESSES))
    else:
        yield from made(SqliteStore(tmp_path / "state" / "state.db", CLOCK, PROCESSES))


THREE = ("web-0", "web-1", "web-2")


def test_a_new_fleet_is_created_started_and_verified(room: Room) -> None:
    result = room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert (result.exit_code, result.summary) == (ExitCode.OK, "3 of 3 nodes done")
    assert room.world.available() == list(THREE)
    nodes = room.recorded.live()
    assert {n.generation for n in nodes.values()} == {1}
    assert all(n.last_healthy == n.spec for n in nodes.values())
    assert room.recorded.open_run is None
    assert room.store.current(plans.FLEET) is None


def test_a_rolling_upgrade_takes_one_node_down_at_a_time(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    seen: list[int] = []
    room.world.on_change = lambda: seen.append(len(room.world.available()))
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.OK
    assert min(seen) == 2
    assert room.world.versions() == dict.fromkeys(THREE, "1.1.0")
    assert all(count == 1 for count in room.world.starts.values())


def test_a_plan_is_used_once(room: Room) -> None:
    plan = plans.plan(THREE, "1.0.0", room.recorded)
    room.apply(plan)
    with pytest.raises(StaleError, match="used once"):
        room.apply(plan)


def test_a_plan_of_an_older_state_is_stale_where_it_touches_what_changed(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    older = plans.plan(THREE, "1.1.0", room.recorded)
    room.apply(plans.plan(THREE, "1.2.0", room.recorded))
    before = room.store.head(plans.FLEET)
    with pytest.raises(StaleError, match="generation 2 is there; the plan expects 1"):
        room.apply(older)
    assert room.store.head(plans.FLEET) == before
    assert room.store.current(plans.FLEET) is None


def test_an_edited_plan_is_refused(room: Room) -> None:
    plan = plans.plan(THREE, "1.0.0", room.recorded)
    with pytest.raises(StaleError, match="changed after it was made"):
        room.apply(plan.model_copy(update={"created_at": "2027-01-01T00:00:00.000Z"}))


def test_the_second_apply_names_the_holder_and_takes_nothing(room: Room) -> None:
    room.store.initialise()
    holder = this_process(PROCESSES, run="other", who="somebody", command="apply")
    room.store.acquire(plans.FLEET, holder, 30)
    with pytest.raises(LeaseHeld, match=r"run other \(apply\) of somebody"):
        room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert room.store.head(plans.FLEET).sequence == 0
    assert room.world.nodes == {}


def test_a_version_that_never_gets_healthy_stops_the_rollout_at_its_first_node(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.world.sick.add("1.1.0")
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    assert result.exit_code is ExitCode.FAILED
    assert "not healthy after 2 s" in result.summary
    assert "0 of 3 nodes done, 1 failed (web-0), 2 not begun" in result.summary
    assert room.world.available() == ["web-1", "web-2"]
    assert room.recorded.open_run is None


def test_auto_revert_brings_back_the_last_healthy_specification(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.world.sick.add("1.1.0")
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded, auto_revert=True))
    assert result.exit_code is ExitCode.FAILED
    assert "was undone" in result.summary
    assert room.world.versions() == dict.fromkeys(THREE, "1.0.0")
    assert room.world.available() == list(THREE)
    assert room.recorded.live()["web-0"].generation == 3


def test_nodes_are_destroyed(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    result = room.apply(plans.plan((), "1.0.0", room.recorded, destroy=THREE))
    assert result.exit_code is ExitCode.OK
    assert room.world.available() == []
    assert room.recorded.live() == {}


def test_a_run_that_was_cut_off_has_to_be_recovered_first(room: Room) -> None:
    class Crash(BaseException):
        """The process ends here."""

    def die(operation: object) -> None:
        raise Crash

    room.world.before = die
    with pytest.raises(Crash):
        room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert room.recorded.open_run is not None
    assert len(room.recorded.unknown) == 3
    room.world.before = None
    with pytest.raises(UnknownOutcome, match="was cut off"):
        room.apply(plans.plan(THREE, "1.1.0", room.recorded))

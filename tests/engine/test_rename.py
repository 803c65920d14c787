"""move: a name is a word in the ledger; the node behind it stays what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.clock import rfc3339
from fleetctl.engine.apply import apply
from fleetctl.engine.errors import UnknownOutcome
from fleetctl.engine.rename import Named, Rename, rename, renames
from fleetctl.ledger import audit
from fleetctl.ledger.entries import Context, run_started, seal
from fleetctl.ledger.ports import LeaseHeld
from manifests.address import GroupAddress, NodeAddress
from manifests.errors import RefusedError, StaleError
from planner.recorded import Recorded, RecordedNode
from tests.engine import plans
from tests.engine.conftest import CLOCK, Room

THREE = ("web-0", "web-1", "web-2")


def node(name: str) -> NodeAddress:
    return NodeAddress(plans.FLEET, name)


def group(name: str) -> GroupAddress:
    return GroupAddress(plans.FLEET, name)


def move(room: Room, source: Named, target: Named) -> tuple[Rename, ...]:
    return rename(room.store, room.engine.holder, rfc3339(CLOCK.now()), source, target)


def test_a_renamed_node_keeps_its_uid_generation_and_specification(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    before = room.recorded.live()["web-0"]
    move(room, node("web-0"), node("front"))
    assert room.recorded.live()["front"] == replace(before, name="front")
    assert "web-0" not in room.recorded.live()
    assert audit.verify(room.store, plans.FLEET).runs == 1
    (line,) = [e for e in audit.export(room.store.read(plans.FLEET)) if e["what"] == "node_renamed"]
    assert (line["who"], line["facts"]) == (
        "tester",
        {"uid": before.uid, "name": "front", "group": before.group},
    )


def test_nodes_that_count_their_groups_name_follow_it(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    move(room, node("web-1"), node("lone"))
    move(room, group("web"), group("edge"))
    assert {n.name for n in room.recorded.live().values()} == {"edge-0", "lone", "edge-2"}
    assert {n.group for n in room.recorded.live().values()} == {"edge"}


def test_there_and_back_is_where_it_began(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    before = room.recorded.nodes
    move(room, node("web-0"), node("x"))
    move(room, node("x"), node("web-0"))
    assert room.recorded.nodes == before
    serial = room.recorded.serial
    move(room, node("web-0"), node("web-0"))
    assert room.recorded.serial == serial, "nothing new is not written"


def recorded(*names: str, gone: str = "") -> Recorded:
    nodes = {n: RecordedNode(n, n, "web", "h", 1, 1, destroyed=n == gone) for n in names}
    return Recorded(plans.FLEET, "l", 1, 1, nodes)


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        (node("web-9"), node("x"), "move.unknown"),
        (node("gone"), node("x"), "move.unknown"),
        (node("web-0"), node("web-1"), "move.taken"),
        (group("nope"), group("x"), "move.unknown"),
        (node("web-0"), group("x"), "move.other-fleet"),
        (node("web-0"), NodeAddress("other", "web-0"), "move.other-fleet"),
    ],
)
def test_what_cannot_be_is_refused(source: Named, target: Named, code: str) -> None:
    with pytest.raises(RefusedError) as e:
        renames(recorded("web-0", "web-1", "gone", gone="gone"), source, target)
    assert e.value.code == code


def test_a_destroyed_nodes_name_is_free() -> None:
    (one,) = renames(recorded("web-0", "gone", gone="gone"), node("web-0"), node("gone"))
    assert (one.uid, one.after) == ("web-0", "gone")


def test_a_plan_with_the_old_name_is_stale_and_one_with_others_is_not(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    made = plans.plan(THREE, "1.1.0", room.recorded)
    move(room, node("web-0"), node("front"))
    with pytest.raises(StaleError, match="it is named front now"):
        apply(made, room.engine)
    assert {n.spec.version for n in room.recorded.nodes.values() if n.spec} == {"1.0.0"}
    move(room, node("front"), node("web-0"))
    assert apply(made, room.engine).exit_code == 0


def test_an_open_run_and_a_held_fleet_move_nothing(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    other = replace(room.engine.holder, run="r2", host="elsewhere", boot_id="other")
    lease = room.store.acquire(plans.FLEET, other, 30.0)
    with pytest.raises(LeaseHeld):
        move(room, node("web-0"), node("x"))
    context = Context(plans.FLEET, room.recorded.lineage or "", "r2", lease.epoch)
    body = run_started(plan_id="p", document="d", command="apply", who="me")
    sealed = seal([body], context, room.store.head(plans.FLEET), rfc3339(CLOCK.now()))
    room.store.append(plans.FLEET, room.recorded.serial, sealed, lease.epoch)
    room.store.release(lease)
    with pytest.raises(UnknownOutcome):
        move(room, node("web-0"), node("x"))
    assert "web-0" in room.recorded.live()

"""What a run tells whoever watches: how it stands, and what a failed node has left before it is replaced."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from executors.clock import SystemClock
from executors.driver import Operation
from executors.health import described
from executors.outcome import Outcome, failed
from fleetctl.engine.events import Examine, Perform, Report
from fleetctl.engine.hands import EXAMINED_MAX_B, Hands
from fleetctl.engine.look import through
from fleetctl.engine.mask import Mask
from fleetctl.engine.progress import EXAMINED_MAX
from fleetctl.stores.memory import MemoryStore
from fleetctl.stores.processes import SystemProcesses, this_process
from manifests.errors import ExitCode
from manifests.schema.host import Host
from manifests.secret import Secret
from planner.plan import StepKind
from planner.spec import SecretUse
from tests.engine import plans
from tests.engine.conftest import Room
from tests.engine.world import FakeDriver, World, fetch
from tests.executors.places import operation

THREE = ("web-0", "web-1", "web-2")
FIVE = tuple(f"web-{n}" for n in range(5))


def told(room: Room, kind: str) -> list[Report]:
    return [r for r in room.watcher.reports if r.kind == kind]


def test_how_many_serve_is_told_from_the_first_look_to_the_last_node(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.watcher.reports.clear()
    room.apply(plans.plan(THREE, "1.1.0", room.recorded))
    standing = [r.facts for r in told(room, "availability")]
    assert {f["available"] for f in standing} == {2, 3}, "one down at a time, and that is what is told"
    (budget,) = plans.plan(THREE, "1.1.0", room.recorded).fleets[0].budgets
    wanted = (budget.count, budget.floor, budget.hard_floor)
    assert {(f["count"], f["floor"], f["reserve"]) for f in standing} == {wanted}
    assert (standing[-1]["available"], standing[-1]["under_way"]) == (3, 0)
    assert all(a != b for a, b in pairwise(standing)), "only what is new is told"
    assert told(room, "finished")[-1].facts["result"] == "succeeded"


def test_a_failed_node_is_looked_at_before_the_way_back_replaces_it(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.world.sick.add("1.1.0")
    monkeypatch.setattr(
        FakeDriver, "logs", lambda self, uid, lines: f"{self.world.nodes[uid].version} is sick"
    )
    room.watcher.reports.clear()
    result = room.apply(plans.plan(THREE, "1.1.0", room.recorded, auto_revert=True))
    assert "was undone" in result.summary
    (evidence,) = told(room, "evidence")
    assert evidence.node == "web-0"
    assert (evidence.facts["state"], evidence.facts["log"]) == ("running", "1.1.0 is sick")
    order = [r.text for r in room.watcher.reports]
    back = next(n for n, text in enumerate(order) if text.startswith("going back"))
    assert order.index(evidence.text) < back
    (failure,) = told(room, "failed")
    assert failure.facts["probe"] == described(plans.spec("1.1.0"))
    assert failure.facts["answer"] == "refused"
    assert any(r.facts["reverting"] for r in told(room, "availability"))


def test_a_look_that_fails_holds_nothing_up(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    room.world.sick.add("1.1.0")

    def broken(self: FakeDriver, uid: str, lines: int) -> str:
        raise OSError("the log is gone")

    monkeypatch.setattr(FakeDriver, "logs", broken)
    assert room.apply(plans.plan(THREE, "1.1.0", room.recorded)).exit_code is ExitCode.FAILED
    (evidence,) = told(room, "evidence")
    assert (evidence.facts["state"], evidence.facts["log"]) == ("", "")


def test_what_was_never_touched_has_left_nothing_and_few_nodes_are_looked_at(room: Room) -> None:
    def refuse(operation: Operation, outcome: Outcome) -> Outcome:
        if operation.effect.value == "start":
            return failed("fake.port", "the port is taken", performed="no")
        return outcome

    room.world.answer = refuse
    room.apply(plans.plan(FIVE, "1.0.0", room.recorded))
    assert len(told(room, "failed")) == 5
    assert len(told(room, "evidence")) == EXAMINED_MAX
    room.watcher.reports.clear()
    room.world.answer = None
    room.world.down_hosts.add("h1")
    room.apply(plans.plan(("new-0",), "1.0.0", room.recorded))
    assert told(room, "evidence") == [] or all(r.facts["state"] == "" for r in told(room, "evidence"))


def test_a_secret_that_a_node_repeats_is_masked_everywhere() -> None:
    """In the last words, in what its place says, in outcomes, and so in the journal and in events."""
    value = "hunter2\nsecond-line-of-it"

    class Leaky(FakeDriver):
        def logs(self, uid: str, lines: int) -> str:
            return f"password is {value}\nand second-line-of-it" + "x" * EXAMINED_MAX_B + " ends"

        def perform(self, operation: Operation, secrets: Any) -> Outcome:
            return failed("fake", f"cannot log in with {value}", log=f"TOKEN={value}")

    world, clock = World(), SystemClock()
    hands = Hands(
        hosts={"h1": Host(api_version="fleetctl/v1", kind="Host", name="h1")},
        drivers=lambda host, substrate: Leaky(world, host.name),
        fetch=fetch,
        resolve=lambda ref: Secret(value),
        observe=through(clock, 1),
        clock=clock,
        leases=MemoryStore(clock, SystemProcesses()),
    )
    spec = plans.spec("1.0.0", env={"TOKEN": SecretUse(secret="env:TOKEN")})
    log = hands.examine(Examine("web-0", "u", "h1", spec), "f").evidence.log
    assert log.endswith(" ends")
    asked = operation(StepKind.START, "u", spec)
    holder = this_process(SystemProcesses(), run="", who="", command="")
    lease = hands.leases.acquire("f", holder, 30.0)
    outcome = hands.perform(Perform("1", "h1", asked), lease).outcome
    assert outcome.detail == "cannot log in with (secret)"
    for text in (log, outcome.detail, str(outcome.evidence)):
        assert "hunter2" not in text
        assert "second-line" not in text


def test_masks_take_the_longest_first_and_leave_short_values_alone() -> None:
    mask = Mask()
    mask.learn([Secret("long-secret-value"), Secret("secret"), Secret("ab"), Secret("")])
    assert mask("a long-secret-value, a secret, ab") == "a (secret), a (secret), ab"

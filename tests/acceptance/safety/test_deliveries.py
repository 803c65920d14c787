"""One operation, delivered ten thousand times: one effect, as the node itself counts it, and one answer.

Twice: through the ledger, as an engine admits it, with a journal on disk that is read anew again and again as by
restarted processes; and past the ledger, straight to the driver, whose guarded script has only the record beside the
node to go by.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from executors.clock import SystemClock, rfc3339
from executors.driver import Operation
from executors.outcome import Outcome
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.operations import (
    AdmissionRefused,
    By,
    Record,
    Request,
    State,
    Verdict,
    admit,
    operation_id,
    request_sha256,
)
from fleetctl.ledger.replay import record_of
from fleetctl.stores.processes import SystemProcesses
from fleetctl.stores.sqlite import SqliteStore
from planner.plan import StepKind
from tests.executors.places import SECRETS, HostPlace, Node, wait_for

DELIVERIES = 10_000
# Between two of these, another process would have been restarted: it knows what the file says and nothing else.
RESTARTS_EVERY = 500
# A guarded script takes some milliseconds; the soak has time for all of them.
PAST_THE_LEDGER, AT_ONCE = 200, 8
UID = "aaaaaaaaaaaaaaaa"
FLEET = "f"
LIFE = (StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.DESTROY)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    place = HostPlace(tmp_path / "host")
    yield Node(place, UID)
    place.close()


@dataclass
class Door:
    """The way of every operation to its driver. `calls` counts what went through."""

    node: Node
    file: Path
    calls: int = 0
    known: dict[str, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """As a process that has just begun: what the journal says is all that is known."""
        self.store = SqliteStore(self.file, SystemClock(), SystemProcesses(), read_only=False)
        self.store.initialise()
        told = [e for e in self.store.read(FLEET) if e["kind"] == "operation"]
        self.known = {e["operation_id"]: record_of(e) for e in told}

    def deliver(self, operation: Operation, *, node_generation: int = 1) -> Record:
        """Admits an operation and gives its record; raises AdmissionRefused."""
        text = {
            "effect": operation.effect.value,
            "spec": operation.spec.model_dump(mode="json", by_alias=True),
        }
        request = Request(
            operation.operation_id, 1, UID, operation.generation, request_sha256(text), operation.epoch
        )
        known = self.known.get(operation.operation_id)
        verdict = admit(request, known, None, node_generation=node_generation, epoch=1)
        if verdict is Verdict.REPLAY:
            assert known is not None
            return known
        assert verdict is Verdict.NEW
        intended = Record(
            operation_id=request.operation_id,
            attempt=1,
            uid=UID,
            node=operation.node,
            generation=request.generation,
            effect=operation.effect.value,
            request_sha256=request.request_sha256,
            step="0",
            run="run",
            epoch=1,
            state=State.INTENDED,
            by=By.ENGINE,
            evidence={},
            at="",
        )
        self.append(intended)
        self.append(replace(intended, state=State.DISPATCHED))
        self.calls += 1
        outcome = self.node.driver.perform(operation, SECRETS)
        assert outcome.state == "succeeded", outcome
        done = replace(intended, state=State.SUCCEEDED, by=By.ANSWER, evidence={"code": outcome.code})
        self.append(done)
        return done

    def append(self, record: Record) -> None:
        head = self.store.head(FLEET)
        sealed = seal(
            [entries.operation(record)], Context(FLEET, "l", "run", 1), head, rfc3339(SystemClock().now())
        )
        self.store.append(FLEET, head.sequence, sealed, 1)
        self.known[record.operation_id] = record


def test_ten_thousand_deliveries_of_each_operation_have_one_effect_each(node: Node, tmp_path: Path) -> None:
    door = Door(node, tmp_path / "state.db")
    for number, effect in enumerate(LIFE):
        operation = node.operation(effect, operation_id=operation_id("plan", FLEET, str(number), 1, 1))
        answers = set()
        for delivery in range(DELIVERIES):
            if delivery and delivery % RESTARTS_EVERY == 0:
                door.store.close()
                door.open()
            record = door.deliver(operation)
            answers.add((record.operation_id, record.state, record.evidence["code"]))
        assert len(answers) == 1
        assert door.calls == number + 1, f"{effect} went to the driver once"
        if effect is StepKind.START:
            node.serves()
        assert node.place.starts(UID) == (0 if number == 0 else 1)
    assert door.store.head(FLEET).sequence == 3 * len(LIFE), (
        "intended, dispatched, succeeded: nothing was added"
    )
    door.store.close()


def test_what_is_not_the_same_operation_never_reaches_the_driver(node: Node, tmp_path: Path) -> None:
    """Another request under the id, an older generation, an older epoch: refused, ten thousand times over."""
    door = Door(node, tmp_path / "state.db")
    operation = node.operation(StepKind.CREATE, operation_id="op")
    door.deliver(operation)
    other = replace(operation, spec=operation.spec.model_copy(update={"command": ("sh",)}))
    late = replace(operation, epoch=0)
    refused = {"operation.collision": 0, "operation.stale_generation": 0, "operation.stale_epoch": 0}
    for number in range(DELIVERIES):
        asked, generation = ((other, 1), (operation, 2), (late, 1))[number % 3]
        with pytest.raises(AdmissionRefused) as e:
            door.deliver(asked, node_generation=generation)
        refused[e.value.code] += 1
    assert sum(refused.values()) == DELIVERIES
    assert min(refused.values()) > 0
    assert door.calls == 1
    assert door.store.head(FLEET).sequence == 3
    door.store.close()


def past_the_ledger(node: Node, deliveries: int) -> None:
    assert node.do(StepKind.CREATE).state == "succeeded"
    operation = node.operation(StepKind.START, operation_id="op-start")

    def deliver(number: int) -> Outcome:
        return node.place.driver().perform(operation, SECRETS)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(deliver, range(deliveries)))
    assert {(a.state.value, a.code) for a in answers} == {("succeeded", answers[0].code)}
    node.serves()
    wait_for(lambda: node.place.starts(UID) > 0, "the node to have counted its start")
    assert node.place.starts(UID) == 1


def test_deliveries_past_the_ledger_and_at_once_start_a_node_once(node: Node) -> None:
    past_the_ledger(node, PAST_THE_LEDGER)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_ten_thousand_deliveries_past_the_ledger_start_a_node_once(node: Node) -> None:
    past_the_ledger(node, DELIVERIES)

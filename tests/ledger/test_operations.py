"""The life of an operation: the table, its identity, and who may be dispatched."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fleetctl.ledger.operations import (
    ATTEMPTS_MAX,
    FINAL,
    TRANSITIONS,
    AdmissionRefused,
    By,
    IllegalMove,
    Record,
    Request,
    State,
    Verdict,
    admit,
    diagram,
    move,
    operation_id,
    request_sha256,
)

RECORD = Record("op-1", 1, "uid", "web-0", 3, "start", "h" * 64, "4", "run", 5, State.DISPATCHED, By.ENGINE)
REQUEST = Request("op-1", 1, "uid", 3, "h" * 64, 5)


def test_every_pair_of_states_is_decided_by_the_table() -> None:
    for start in State:
        for by in By:
            for end in State:
                if end in TRANSITIONS.get((start, by), ()):
                    assert move(start, end, by) is end
                else:
                    with pytest.raises(IllegalMove):
                        move(start, end, by)


def test_an_operation_begins_as_an_intent_of_the_engine_and_nothing_else() -> None:
    assert move(None, State.INTENDED, By.ENGINE) is State.INTENDED
    for state in set(State) - {State.INTENDED}:
        with pytest.raises(IllegalMove):
            move(None, state, By.ENGINE)


def test_nothing_leads_out_of_a_final_state() -> None:
    assert not [key for key in TRANSITIONS if key[0] in FINAL]


def test_unknown_is_left_by_lookup_or_operator_only() -> None:
    assert {by for state, by in TRANSITIONS if state is State.UNKNOWN} == {By.LOOKUP, By.OPERATOR}


def test_the_diagram_draws_every_transition() -> None:
    drawn = diagram()
    assert drawn.startswith("stateDiagram-v2\n")
    assert drawn.count("-->") == 1 + sum(len(ends) for ends in TRANSITIONS.values()) + len(FINAL)


def test_an_operation_id_is_derived_and_differs_by_each_of_its_parts() -> None:
    parts = ("plan", "edge", "4", 3, 1)
    same = operation_id(*parts)
    assert same == operation_id(*parts)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", same)
    others = {
        operation_id("plan2", "edge", "4", 3, 1),
        operation_id("plan", "edge2", "4", 3, 1),
        operation_id("plan", "edge", "5", 3, 1),
        operation_id("plan", "edge", "4", 4, 1),
        operation_id("plan", "edge", "4", 3, 2),
    }
    assert same not in others
    assert len(others) == 5


def test_the_request_hash_is_that_of_the_canonical_form() -> None:
    """The vector of contracts 1.6."""
    request = {
        "operation_id": "op-vector",
        "instance_id": "instance-vector",
        "generation": 7,
        "action": "provision",
        "payload": {"z": 1, "a": {"b": True, "a": "x"}},
    }
    assert request_sha256(request) == "3570919d5b0f942f23a288d92611914d91d3472f10e31a44c76359f940936636"


def ask(
    request: Request = REQUEST,
    recorded: Record | None = None,
    previous: Record | None = None,
    node_generation: int = 3,
    epoch: int = 5,
) -> Verdict:
    return admit(request, recorded, previous, node_generation=node_generation, epoch=epoch)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        (State.INTENDED, Verdict.DISPATCH),
        (State.DISPATCHED, Verdict.LOOKUP),
        (State.UNKNOWN, Verdict.LOOKUP),
        (State.SUCCEEDED, Verdict.REPLAY),
        (State.FAILED, Verdict.REPLAY),
        (State.REJECTED, Verdict.REPLAY),
    ],
)
def test_the_same_id_and_hash_give_what_is_recorded(state: State, verdict: Verdict) -> None:
    assert ask(recorded=replace(RECORD, state=state)) is verdict


def test_ten_thousand_deliveries_of_one_operation_are_one_effect() -> None:
    recorded: Record | None = None
    effects = 0
    for _ in range(10_000):
        if ask(recorded=recorded) in (Verdict.NEW, Verdict.DISPATCH):
            effects += 1
            recorded = RECORD
    assert effects == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"request_sha256": "x" * 64}, "operation.collision"),
        ({"generation": 2}, "operation.stale_generation"),
        ({"epoch": 4}, "operation.stale_epoch"),
    ],
)
def test_another_hash_an_older_generation_and_an_older_epoch_are_refused(
    change: dict[str, object], code: str
) -> None:
    with pytest.raises(AdmissionRefused) as caught:
        ask(replace(REQUEST, **change), recorded=replace(RECORD, state=State.SUCCEEDED))  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("state", "by", "evidence", "allowed"),
    [
        (State.REJECTED, By.ANSWER, {}, True),
        (State.FAILED, By.LOOKUP, {}, True),
        (State.FAILED, By.OPERATOR, {}, True),
        (State.FAILED, By.ANSWER, {"performed": "no"}, True),
        (State.FAILED, By.ANSWER, {"performed": 0}, True),
        (State.FAILED, By.ANSWER, {}, False),
        (State.SUCCEEDED, By.ANSWER, {}, False),
        (State.UNKNOWN, By.ANSWER, {}, False),
        (State.DISPATCHED, By.ENGINE, {}, False),
    ],
)
def test_the_next_attempt_needs_evidence_that_the_last_was_not_performed(
    state: State, by: By, evidence: dict[str, object], allowed: bool
) -> None:
    second = replace(REQUEST, operation_id="op-2", attempt=2)
    previous = replace(RECORD, state=state, by=by, evidence=evidence)
    if allowed:
        assert ask(second, previous=previous) is Verdict.NEW
        return
    with pytest.raises(AdmissionRefused, match="needs evidence"):
        ask(second, previous=previous)


def test_attempts_end() -> None:
    last = replace(REQUEST, operation_id="op-9", attempt=ATTEMPTS_MAX + 1)
    with pytest.raises(AdmissionRefused, match="tried"):
        ask(last, previous=replace(RECORD, state=State.REJECTED))


def test_the_documentation_draws_the_table_as_it_is() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "ledger.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}```" in text

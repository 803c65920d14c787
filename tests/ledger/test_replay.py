"""Replay: what the journal tells is what is believed; journals that older releases wrote always replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetctl.ledger import entries
from fleetctl.ledger.entries import Body, Context, seal, verified
from fleetctl.ledger.operations import By, Record, State
from fleetctl.ledger.ports import Head, StateError
from fleetctl.ledger.replay import Replayed, replay
from tests.engine import plans

JOURNALS = sorted((Path(__file__).parent.parent / "cases" / "journals").glob("*.jsonl"))
SPEC = plans.spec("1.0.0")
STARTED = entries.run_started(plan_id="p1", document="sha256:0", command="apply", who="me")


DRAINED = [("drain", State.INTENDED), ("drain", State.DISPATCHED), ("drain", State.SUCCEEDED)]
BY = dict.fromkeys(State, By.ANSWER) | {State.INTENDED: By.ENGINE, State.DISPATCHED: By.ENGINE}


def told(*bodies: Body) -> Replayed:
    sealed = seal(list(bodies), Context("edge", "l1", "r1", 1), Head(), "2026-01-01T00:00:00.000Z")
    return replay("edge", json.loads(json.dumps(sealed)))


def operation(state: State, by: By = By.ENGINE, operation_id: str = "op-1") -> Body:
    return entries.operation(
        Record(operation_id, 1, "u1", "web-0", 1, "create", "h", "0", "r1", 1, state, by)
    )


def test_nothing_written_is_a_fleet_that_was_never_applied() -> None:
    empty = replay("edge", [])
    assert (empty.recorded.lineage, empty.recorded.serial, empty.open_run) == (None, 0, None)


def test_a_placed_and_verified_node_is_recorded_with_its_last_healthy_specification() -> None:
    newer = plans.spec("1.1.0")
    recorded = told(
        STARTED,
        entries.node_placed("u1", "web-0", "web", 1, SPEC),
        entries.node_healthy("u1", 1, "2"),
        entries.node_placed("u1", "web-0", "web", 2, newer),
    ).recorded
    node = recorded.nodes["u1"]
    assert (node.generation, node.spec, node.last_healthy) == (2, newer, SPEC)
    assert (recorded.lineage, recorded.serial, recorded.plans) == ("l1", 4, {"p1"})


def test_a_destroyed_node_stays_as_a_tombstone() -> None:
    recorded = told(
        STARTED, entries.node_placed("u1", "web-0", "web", 1, SPEC), entries.node_gone("u1")
    ).recorded
    assert recorded.live() == {}
    assert recorded.nodes["u1"].destroyed


@pytest.mark.parametrize(
    ("moves", "drained"),
    [
        ([("drain", State.INTENDED)], False),
        ([("drain", State.INTENDED), ("drain", State.DISPATCHED)], False),
        ([("drain", State.INTENDED), ("drain", State.DISPATCHED), ("drain", State.REJECTED)], False),
        ([("drain", State.INTENDED), ("drain", State.DISPATCHED), ("drain", State.UNKNOWN)], False),
        ([("drain", State.INTENDED), ("drain", State.DISPATCHED), ("drain", State.FAILED)], False),
        (
            [("pre_drain", State.INTENDED), ("pre_drain", State.DISPATCHED), ("pre_drain", State.SUCCEEDED)],
            True,
        ),
        ([*DRAINED, ("stop", State.INTENDED), ("stop", State.DISPATCHED)], True),
        ([*DRAINED, ("stop", State.INTENDED), ("stop", State.DISPATCHED), ("stop", State.SUCCEEDED)], False),
        (
            [*DRAINED, ("start", State.INTENDED), ("start", State.DISPATCHED), ("start", State.SUCCEEDED)],
            False,
        ),
        ([*DRAINED, ("verify", State.INTENDED)], True),
    ],
)
def test_a_node_that_was_told_to_drain_is_drained_until_it_is_stopped(
    moves: list[tuple[str, State]], drained: bool
) -> None:
    bodies = [
        entries.operation(
            Record(f"op-{effect}", 1, "u1", "web-0", 1, effect, "h", effect, "r1", 1, state, BY[state])
        )
        for effect, state in moves
    ]
    recorded = told(STARTED, entries.node_placed("u1", "web-0", "web", 1, SPEC), *bodies).recorded
    node = recorded.nodes["u1"]
    assert (node.withdrawn_at is not None) is drained
    assert node.drained is (drained and ("drain", State.SUCCEEDED) in moves)


def test_a_run_without_an_end_was_cut_off_and_names_what_is_open() -> None:
    replayed = told(STARTED, operation(State.INTENDED), operation(State.DISPATCHED))
    assert replayed.recorded.open_run == "r1"
    assert replayed.recorded.unknown == ("op-1",)


def test_the_baseline_of_a_run_is_what_was_recorded_when_it_began() -> None:
    sealed = seal(
        [
            STARTED,
            entries.node_placed("u1", "web-0", "web", 1, SPEC),
            entries.node_healthy("u1", 1, "2"),
            entries.run_finished("succeeded", 0, ""),
        ],
        Context("edge", "l1", "r1", 1),
        Head(),
        "2026-01-01T00:00:00.000Z",
    )
    head = Head(4, entries.sha256_hex(entries.encode(sealed[-1])), "l1")
    second = {**STARTED, "plan_id": "p2"}
    newer = plans.spec("1.1.0")
    sealed += seal(
        [
            second,
            entries.node_placed("u1", "web-0", "web", 2, newer),
            entries.node_healthy("u1", 2, "2"),
        ],
        Context("edge", "l1", "r2", 2),
        head,
        "2026-01-01T00:00:00.000Z",
    )
    run = replay("edge", sealed).open_run
    assert run is not None
    assert run.baseline["u1"].last_healthy == SPEC


def test_an_illegal_move_is_damage_at_its_place() -> None:
    with pytest.raises(StateError, match="entry 2 of fleet edge makes no sense"):
        told(STARTED, operation(State.SUCCEEDED, By.ANSWER))


def test_keys_and_kinds_of_a_later_release_are_passed_over() -> None:
    replayed = told({**STARTED, "colour": "blue"}, {"kind": "weather", "sunny": True})
    assert replayed.recorded.serial == 2


@pytest.mark.parametrize("path", JOURNALS, ids=lambda p: p.stem)
def test_a_kept_journal_replays_to_what_it_always_did(path: Path) -> None:
    """Each fixture's neighbour `.json` says what an unchanged reader must believe."""
    lines = path.read_bytes().splitlines()
    rows = [(line, entries.sha256_hex(line)) for line in lines]
    fleet = json.loads(lines[0])["fleet"]
    replayed = replay(fleet, verified(rows, fleet, Head()))
    assert summary(replayed) == json.loads(path.with_suffix(".json").read_text())


def summary(replayed: Replayed) -> dict[str, object]:
    recorded = replayed.recorded
    return {
        "serial": recorded.serial,
        "epoch": recorded.epoch,
        "plans": len(recorded.plans),
        "open_run": recorded.open_run is not None,
        "unknown": len(recorded.unknown),
        "runs": [[r.result, r.exit_code, r.effects] for r in replayed.runs],
        "nodes": {
            n.name: [
                n.generation,
                n.spec and n.spec.version,
                n.last_healthy and n.last_healthy.version,
                n.destroyed,
            ]
            for n in recorded.nodes.values()
        },
    }


def test_there_are_kept_journals() -> None:
    assert len(JOURNALS) >= 3

"""The host's answers by case files: what came, three dashes, and what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from executors.host.parse import observation, process_state, result
from planner.observed import NodeState

CASES = Path(__file__).parents[1] / "cases" / "host"


def cases(kind: str) -> list[Path]:
    found = sorted(CASES.glob(f"{kind}-*.txt"))
    assert found
    return found


def read(path: Path) -> tuple[bytes, Any]:
    said, _, meant = path.read_bytes().rpartition(b"---\n")
    return said, json.loads(meant)


@pytest.mark.parametrize("path", cases("observe"), ids=lambda p: p.stem)
def test_observation(path: Path) -> None:
    """Every key of the case is found; nodes are exactly those of the case."""
    said, meant = read(path)
    host = observation(said, "h1", frozenset(), "/r").model_dump(mode="json")
    nodes = {node["uid"]: node for node in host.pop("nodes")}
    wanted = meant.pop("nodes")
    assert {key: host[key] for key in meant} == meant
    assert set(nodes) == set(wanted)
    for uid, facts in wanted.items():
        assert {key: nodes[uid][key] for key in facts} == facts


@pytest.mark.parametrize("path", cases("result"), ids=lambda p: p.stem)
def test_result(path: Path) -> None:
    said, meant = read(path)
    outcome = result(said)
    found = {
        "state": outcome.state.value,
        "code": outcome.code,
        "detail": outcome.detail,
        "evidence": dict(outcome.evidence),
    }
    assert {key: found[key] for key in meant} == meant


def test_nodes_of_other_fleets_are_left_out_and_damaged_ones_are_not() -> None:
    """A node whose fleet cannot be read might be anybody's: everybody sees it."""
    said, _ = read(CASES / "observe-life.txt")
    host = observation(said, "h1", frozenset({"other"}), "/r")
    assert {n.state for n in host.nodes} == {NodeState.DAMAGED}


@pytest.mark.parametrize(
    ("stat", "state"),
    [
        ("7 (a) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 55 9", "S"),
        ("7 (a) b) T 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 55 9", "T"),
        ("7 (a) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 55 9", None),
        ("7 (a) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 56 9", None),
        ("7 (a) S 1 7", None),
        ("", None),
    ],
)
def test_a_process_is_its_number_and_its_start_time(stat: str, state: str | None) -> None:
    assert process_state(stat, "55") == state

"""`kill -9` of the real command at random instants of rolling upgrades of real processes, then `recover`.

Nothing starts twice, as the nodes themselves log it; the floor holds, as a client outside sees it. Seeds are
printed; one round is `ROUNDS=1 SEED=4711 python -m pytest tests/simulator/test_real_kills.py -s`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from executors.clock import SystemClock
from fleetctl.stores.processes import SystemProcesses
from fleetctl.stores.sqlite import SqliteStore
from tests.acceptance.cli import Workspace
from tests.acceptance.client import Watch

FLEET = "hello"
ROUNDS = int(os.environ.get("ROUNDS", "10"))
SOAK_ROUNDS = 100
KILLS_MAX = 3
SETTLED_WITHIN_S = 5.0
STARTS = re.compile(r"program (\S+) starts on (\d+)")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "w")
    made.fleet()
    yield made
    made.close()


def starts(workspace: Workspace) -> Counter[tuple[str, int]]:
    """How often each node says that it started, by version and port."""
    found: Counter[tuple[str, int]] = Counter()
    for log in (workspace.path / "host" / "nodes").rglob("*"):
        if log.is_file() and log.parent.name != "data" and log.stat().st_size < 2**20:
            text = log.read_bytes().decode(errors="replace")
            found.update((m[1], int(m[2])) for m in STARTS.finditer(text))
    return found


def settling(workspace: Workspace) -> list[float]:
    """Seconds from each taking up of a run to the outcome of every operation that it had found open."""
    store = SqliteStore(
        workspace.path / ".fleetctl" / "state.db", SystemClock(), SystemProcesses(), read_only=True
    )
    resumed_at, took = "", []
    open_: set[str] = set()
    found: set[str] = set()
    for entry in store.read(FLEET):
        if entry["kind"] == "run_started":
            resumed_at, found = entry["at"], set(open_)
        elif entry["kind"] == "operation":
            name = entry["operation_id"]
            if entry["state"] in ("intended", "dispatched", "unknown"):
                open_.add(name)
            else:
                open_.discard(name)
                if name in found:
                    found.discard(name)
                    took.append(seconds(resumed_at, entry["at"]))
    store.close()
    return took


def seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def killed(workspace: Workspace, draw: Random, span_s: float, *arguments: str) -> bool:
    """Runs the command and kills it at a random instant; False when it had ended before."""
    process = workspace.start(*arguments)
    try:
        process.wait(draw.uniform(0.2, span_s))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        return True
    return False


def lives(workspace: Workspace, rounds: int, seed: int) -> None:
    workspace.apply()
    begun = time.monotonic()
    workspace.fleet("1.1.0", min_ready="100ms")
    workspace.apply()
    span_s = time.monotonic() - begun
    versions, kills = ("1.0.0", "1.1.0"), 0
    for number in range(rounds):
        draw, version = Random(seed + number), versions[number % 2]
        print(f"round {number}: seed {seed + number}, to {version}")
        workspace.fleet(version, min_ready="100ms")
        before = starts(workspace)
        with Watch(workspace.ports) as watch:
            dead = killed(workspace, draw, span_s, "apply", ".", "--auto-approve")
            for _ in range(draw.randint(0, KILLS_MAX - 1)):
                if dead:
                    kills += 1
                    dead = killed(workspace, draw, span_s, "recover", ".", "--auto-approve")
            kills += dead
            recovered = workspace.run("recover", ".", "--auto-approve")
            assert recovered.code == 0, str(recovered)
            workspace.apply()
        assert watch.most_down_at_once() <= 1
        assert starts(workspace) - before == Counter({(version, port): 1 for port in workspace.ports})
    took = sorted(settling(workspace))
    print(f"{rounds} rounds, {kills} kills, {len(took)} outcomes open and settled: {took}")
    assert kills > 0
    if took:
        assert took[int(0.95 * (len(took) - 1))] < SETTLED_WITHIN_S


@pytest.mark.timeout(600)
def test_a_fleet_of_real_processes_survives_kills_at_random_instants(workspace: Workspace) -> None:
    lives(workspace, ROUNDS, int(os.environ.get("SEED", "1000")))


@pytest.mark.soak
def test_it_survives_a_hundred_rounds(workspace: Workspace) -> None:
    lives(workspace, SOAK_ROUNDS, 2000)

"""`kill -9` of the real command at random instants of rolling upgrades of containers, then `recover`.

The containers count their own starts over their data; the floor is what a client outside sees. Each round prints its
seed; one round is `ROUNDS=1 SEED=4711 python -m pytest tests/acceptance/safety/test_docker_kills.py -s`.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import VERSIONS, Fleet, engine, in_containers
from tests.lab.docker_engine import DockerEngine

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SEED = int(os.environ.get("SEED", "3000"))
SOAK_ROUNDS = 30
RUN = re.compile(r" run [0-9a-f]{32}")


@pytest.fixture
def fleet(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Fleet]:
    """Three containers, named after the test's folder so that no other test's are taken for them."""
    place = engine("box", docker_engine.url)
    made = Fleet(tmp_path / "kills", "kills", [place], [in_containers("web", ["box"], free_ports(3), 3)])
    try:
        yield made
    finally:
        made.run("recover", ".", "--auto-approve")
        made.destroy()


def begin(fleet: Fleet) -> subprocess.Popen[str]:
    """Starts an apply, and comes back when its run has begun: from here on an instant is one of the rollout."""
    process = fleet.start("apply", ".", "--auto-approve")
    assert process.stderr is not None
    while line := process.stderr.readline():
        if RUN.search(line):
            return process
    raise AssertionError(f"no run began: {process.communicate()}")


def killed(fleet: Fleet, after_s: float) -> bool:
    """Kills an apply so long after its run began; False when it had ended before."""
    process = begin(fleet)
    try:
        process.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    return False


def undisturbed_s(fleet: Fleet) -> float:
    """How long a rollout takes here and now."""
    process = begin(fleet)
    begun = time.monotonic()
    done = fleet.finished(process)
    assert done.code == 0, str(done)
    return time.monotonic() - begun


def lives(fleet: Fleet, rounds: int, seed: int) -> None:
    fleet.settle()
    span_s = undisturbed_s(fleet.want(version=VERSIONS[1]))
    kills = cut_off = 0
    for number in range(rounds):
        after_s, version = Random(seed + number).uniform(0.0, span_s), VERSIONS[number % 2]
        print(
            f"round {number}: seed {seed + number}, to {version}, killed after {after_s:.1f} of {span_s:.1f} s"
        )
        fleet.want(version=version)
        before = {name: int(n or 0) for name, n in fleet.ask("/starts").items()}
        with fleet.watch() as watch:
            kills += killed(fleet, after_s)
            recovered = fleet.run("recover", ".", "--auto-approve")
            assert recovered.code == 0, str(recovered)
            cut_off += not recovered.out.startswith("Nothing to recover")
        fleet.unchanged()
        fleet.kept(watch)
        assert set(fleet.ask("/version").values()) == {version}
        after = {name: int(n or 0) for name, n in fleet.ask("/starts").items()}
        assert after == {name: n + 1 for name, n in before.items()}, "each container counts one more start"
    print(f"{rounds} rounds, {kills} kills, {cut_off} runs cut off and recovered")
    assert cut_off > 0, "no kill came in the middle, so this proves nothing"


@pytest.mark.timeout(600)
def test_a_fleet_of_containers_survives_kills_at_random_instants(fleet: Fleet) -> None:
    lives(fleet, ROUNDS, SEED)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_it_survives_thirty_rounds(fleet: Fleet) -> None:
    lives(fleet, SOAK_ROUNDS, SEED + 1000)

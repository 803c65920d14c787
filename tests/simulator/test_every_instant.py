"""Crash before and after every append and every effect of an upgrade: recover converges, nothing happens twice."""

from __future__ import annotations

from random import Random

import pytest

from manifests.errors import ExitCode
from tests.engine import plans
from tests.simulator.harness import Sim

THREE = ("web-0", "web-1", "web-2")
EDGES = 60
"""More than the upgrade below has; a test asserts it."""


def upgrade(crash_at: int | None, *, sick: bool = False) -> tuple[Sim, ExitCode]:
    sim = Sim(Random(7), crash_at=crash_at)
    sim.found(THREE, "1.0.0")
    sim.world.floor, sim.world.reserve = 2, 1
    if sick:
        sim.world.sick.add("1.1.0")
    plan = plans.plan(THREE, "1.1.0", sim.recorded(), auto_revert=sick, reserve=1)
    return sim, sim.live(plan).exit_code


@pytest.mark.parametrize("crash_at", range(1, EDGES))
def test_an_upgrade_survives_a_crash_at_this_instant(crash_at: int) -> None:
    sim, code = upgrade(crash_at)
    assert code is ExitCode.OK
    assert sim.broken() == []
    assert sim.world.versions() == dict.fromkeys(THREE, "1.1.0")
    assert sim.world.available() == list(THREE)
    assert all(n.last_healthy == n.spec for n in sim.recorded().live().values())


@pytest.mark.parametrize("crash_at", range(1, EDGES))
def test_a_failing_rollout_is_undone_in_spite_of_a_crash_at_this_instant(crash_at: int) -> None:
    sim, code = upgrade(crash_at, sick=True)
    assert code is ExitCode.FAILED
    assert sim.broken() == []
    assert sim.world.versions() == dict.fromkeys(THREE, "1.0.0")
    assert sim.world.available() == list(THREE)


def test_the_instants_above_are_all_there_are() -> None:
    for sick in (False, True):
        sim, _ = upgrade(None, sick=sick)
        assert 20 < sim.edges < EDGES

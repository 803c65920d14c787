"""A thousand lives from a thousand seeds: no promise is broken in any of them.

One seed alone: `python -m tests.simulator.test_seeds 4711`.
"""

from __future__ import annotations

import sys

import pytest

from tests.simulator.seeds import live

SEEDS = 1000
SOAK_SEEDS = 10_000
CHUNK = 100


def broken(first: int, last: int, **how: bool) -> dict[int, list[str]]:
    """The seeds of this range that broke a promise, and which."""
    found = {}
    for seed in range(first, last):
        life = live(seed, **how)
        if life.broken:
            found[seed] = life.broken
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_promise(first: int) -> None:
    assert broken(first, first + CHUNK) == {}


@pytest.mark.parametrize("first", range(SEEDS, SEEDS + 200, CHUNK))
def test_without_a_fence_on_the_target_a_fenced_holder_acts_at_most_once(first: int) -> None:
    """Docker and libvirt do not check epochs: the window between check and call stays, and is bounded."""
    assert broken(first, first + CHUNK, checks_epoch=False) == {}


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, CHUNK))
def test_no_seed_of_the_long_run_breaks_a_promise(first: int) -> None:
    assert broken(first, first + CHUNK) == {}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        life = live(int(argument))
        print(f"seed {argument}: {life.result.exit_code!r} {life.result.summary}")
        print("\n".join([*life.sim.log, *(f"BROKEN {b}" for b in life.broken)]))

"""How time and memory grow with hosts: an upgrade of N simulated hosts of four nodes, as a process of its own.

`python -m tests.bench.slope N` carries one out; `measure` compares 50 hosts with 500, each beside a process
that does the same for one host, so that what every process costs is taken off.
"""

from __future__ import annotations

import sys
from random import Random

from tests.bench.measure import process
from tests.bench.table import Table

FEW, MANY = 50, 500
NODES = 4
SLOPE_MAX = 1.1


def upgrade(hosts: int) -> None:
    """Found a fleet on so many hosts, and roll all of it, a tenth at once."""
    from tests.engine import plans
    from tests.simulator.harness import Sim

    names = tuple(f"web-{n}" for n in range(hosts * NODES))
    places = {name: f"h{n // NODES}" for n, name in enumerate(names)}
    sim = Sim(Random(1), latency_s=0.00001)
    sim.world.judged = False
    sim.found(names, "1.0.0", hosts=places, progress_ms=10**8)
    plan = plans.plan(
        names,
        "1.1.0",
        sim.recorded(),
        hosts=places,
        max_unavailable=max(1, len(names) // 10),
        progress_ms=10**8,
    )
    result = sim.live(plan)
    assert result.exit_code == 0, result.summary


def measure(table: Table) -> None:
    """Adds two rows: CPU per host and memory per host, at 500 hosts as a multiple of those at 50."""
    base, few, many = (
        process([sys.executable, "-m", "tests.bench.slope", str(n)], runs=3, warmups=0)
        for n in (1, FEW, MANY)
    )
    for sample in (base, few, many):
        assert sample.code == 0, sample.errors
    for what, unit, values in (
        ("CPU", "ms", [1000 * s.cpu_s for s in (base, few, many)]),
        ("memory", "KiB", [1024 * s.peak_mib for s in (base, few, many)]),
    ):
        start, at_few, at_many = values
        per_few, per_many = (at_few - start) / (FEW - 1), (at_many - start) / (MANY - 1)
        table.add(
            f"{what} per simulated host, {FEW} to {MANY} hosts of {NODES} nodes",
            f"{per_many:.1f} {unit}",
            f"at {FEW}: {per_few:.1f} {unit}; {per_many / per_few:.2f} x",
            f"at most {SLOPE_MAX} x",
            per_many <= SLOPE_MAX * per_few,
        )


if __name__ == "__main__":
    upgrade(int(sys.argv[1]))

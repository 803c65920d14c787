"""What a step costs the engine itself: CPU of deciding and recording, drivers and syncs apart.

`python -m tests.simulator.cost` prints it for 100, 1,000 and 10,000 simulated nodes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random
from statistics import median

from fleetctl.engine import decide, loop
from fleetctl.engine.events import Effect, Event, Performed, Probed, Staged
from fleetctl.engine.rollout import Rollout
from fleetctl.ledger.entries import Body
from tests.engine import plans
from tests.simulator.harness import Sim

SIZES = (100, 1_000, 10_000)


@dataclass(frozen=True)
class Cost:
    """Milliseconds of CPU: the median of a decision with its journal entries, and all of them per step."""

    nodes: int
    steps: int
    median_ms: float
    per_step_ms: float


def measure(nodes: int) -> Cost:
    """An upgrade of so many nodes, a tenth of them at once, in the simulated world."""
    names = tuple(f"web-{n}" for n in range(nodes))
    sim = Sim(Random(1), latency_s=0.00001)
    sim.world.judged = False  # the checks would cost more than what is measured
    hosts = {name: f"h{n % 50}" for n, name in enumerate(names)}
    sim.found(names, "1.0.0", hosts=hosts, progress_ms=10**8)
    plan = plans.plan(
        names, "1.1.0", sim.recorded(), hosts=hosts, max_unavailable=nodes // 10, progress_ms=10**8
    )
    spent: list[float] = []
    total = 0.0
    original, append = loop.on_event, loop.Loop.append

    def timed(rollout: Rollout, event: Event) -> list[Effect]:
        nonlocal total
        begun = time.process_time()
        out = original(rollout, event)
        took = time.process_time() - begun
        total += took
        if isinstance(event, (Performed, Probed, Staged)):
            spent.append(took)
        return out

    def recorded(self: loop.Loop, bodies: tuple[Body, ...]) -> None:
        nonlocal total
        begun = time.process_time()
        append(self, bodies)
        took = time.process_time() - begun
        total += took
        if spent:
            spent[-1] += took

    loop.on_event, loop.Loop.append = timed, recorded  # type: ignore[method-assign]
    try:
        result = sim.live(plan)
    finally:
        loop.on_event, loop.Loop.append = original, append  # type: ignore[method-assign]
    assert result.exit_code == 0, result.summary
    steps = len(plan.fleets[0].steps)
    return Cost(nodes, steps, median(spent) * 1000, total / steps * 1000)


if __name__ == "__main__":
    assert decide.on_event is loop.on_event
    for size in SIZES:
        cost = measure(size)
        print(
            f"{cost.nodes:>6} nodes {cost.steps:>6} steps  median {cost.median_ms:.3f} ms  per step {cost.per_step_ms:.3f} ms"
        )

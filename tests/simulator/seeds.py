"""From a seed to a life: which fleet, which faults, which crashes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fleetctl.engine.apply import Result
from manifests.errors import ExitCode
from tests.engine import plans
from tests.simulator.harness import Faults, Sim

PROFILES = (
    Faults(),
    Faults(lost_after=0.15),
    Faults(lost_before=0.1),
    Faults(late=0.1),
    Faults(begun=0.2),
    Faults(lost_before=0.05, lost_after=0.05, late=0.05, begun=0.05),
    Faults(unreachable=0.05, lost_after=0.05),
    Faults(node_dies=0.01, lost_after=0.05),
)


@dataclass
class Life:
    """What a seed came to."""

    sim: Sim
    result: Result
    names: tuple[str, ...]
    sick: bool
    faults: Faults
    broken: list[str]


def live(seed: int, *, checks_epoch: bool = True, tame: bool = False) -> Life:
    """Lives through a seed. `tame`: the same fleet and plan, without faults and crashes."""
    draw = Random(seed)
    count, width = draw.randint(1, 6), draw.randint(1, 3)
    names = tuple(f"web-{n}" for n in range(count))
    hosts = {name: f"h{draw.randrange(width)}" for name in names}
    max_unavailable = draw.randint(1, max(1, count // 2))
    reserve = draw.choice((0, 1)) if max_unavailable < count - 1 else 0
    faults = draw.choice(PROFILES)
    sick = draw.random() < 0.25
    auto_revert = draw.random() < 0.6
    canary = draw.choice((0, 0, 1)) if count > 1 else 0
    max_failures = draw.choice((0, 0, 1))
    sim = Sim(
        Random(seed + 1),
        checks_epoch=checks_epoch,
        faults=faults,
        crashes_left=draw.choice((0, 1, 2, 4)),
        crash_share=draw.choice((0.02, 0.1)),
        full_disk_share=draw.choice((0.0, 0.0, 0.02)),
        rivals_left=draw.choice((0, 0, 1)),
    )
    sim.found(names, "1.0.0", hosts=hosts)
    if tame:
        sim.crashes_left = sim.rivals_left = 0
        sim.full_disk_share = 0.0
    else:
        sim.world.faults = faults
        sim.world.deaths_left = 2 if faults.node_dies else 0
    sim.world.floor, sim.world.reserve = max(reserve, count - max_unavailable), reserve
    if sick:
        sim.world.sick.add("1.1.0")
    plan = plans.plan(
        names,
        "1.1.0",
        sim.recorded(),
        hosts=hosts,
        max_unavailable=max_unavailable,
        reserve=reserve,
        canary=canary,
        max_failures=max_failures,
        auto_revert=auto_revert,
        progress_ms=120_000,
    )
    result = sim.live(plan)
    life = Life(sim, result, names, sick, faults, sim.broken())
    life.broken += _wrong_end(life)
    return life


def _wrong_end(life: Life) -> list[str]:
    """What the end must be where the faults allow only one: that of a life without them."""
    sim, broken = life.sim, []
    if life.result.exit_code is ExitCode.OK:
        if sim.world.versions() != dict.fromkeys(life.names, "1.1.0") and not life.faults.node_dies:
            broken.append(f"done, and yet {sim.world.versions()}")
        if life.sick:
            broken.append("a version that is never healthy was called done")
    quiet = not life.faults.node_dies and not life.faults.unreachable
    if quiet and not life.sick and life.result.exit_code is not ExitCode.OK:
        if "fake.not_performed" in life.result.summary:
            return broken  # the faults hit every attempt at one step, and giving up is right
        broken.append(f"crash-free it succeeds; here: {life.result.exit_code} {life.result.summary}")
    recorded = sim.recorded().live()
    for node in sim.world.nodes.values():
        known = recorded.get(node.name)
        if known is None or known.generation != node.generation:
            broken.append(f"{node.name}: generation {node.generation} runs, recorded is {known}")
    return broken

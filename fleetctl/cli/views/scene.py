"""A rollout as it stands, for the live view: waves, how many serve, what failed nodes have left.

The engine's thread writes, the view's thread reads; both only for moments, and nobody draws under the lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from executors.clock import Clock
from fleetctl.cli.terminal import clean

if TYPE_CHECKING:
    from fleetctl.engine.events import Report
    from planner.plan import FleetPlan, Plan

TAILS_MAX = 3
TAIL_LINES_MAX = 15


@dataclass(frozen=True, slots=True)
class Gauge:
    """A budget's scope: nodes that serve, of how many, and the floors."""

    scope: str
    available: int
    count: int
    floor: int
    reserve: int


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: how many of its nodes are done, have failed, of how many."""

    number: int
    done: int
    failed: int
    count: int
    now: bool


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a failed node's own output, cleaned, and what its place says of it."""

    node: str
    words: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shot:
    """The scene at one moment. `begun_s` is when the run began (monotonic)."""

    fleet: str = ""
    begun_s: float = 0.0
    waves: tuple[Wave, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    done: int = 0
    failed: int = 0
    count: int = 0
    reverting: bool = False
    halted: str = ""
    tails: tuple[Tail, ...] = ()


@dataclass(slots=True)
class _Fleet:
    """What is left of each wave: (wave, node) -> steps; `step_waves` has the waves of a node's steps of one kind, in order."""

    shot: Shot
    left: dict[tuple[int, str], int] = field(default_factory=dict)
    step_waves: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    sizes: Counter[int] = field(default_factory=Counter)
    done: Counter[int] = field(default_factory=Counter)
    failed: dict[int, set[str]] = field(default_factory=dict)
    open: Counter[str] = field(default_factory=Counter)
    bad: set[str] = field(default_factory=set)
    wave: int = 0


class Scene:
    """Follows the reports of the fleets of one plan."""

    def __init__(self, plan: Plan | None, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._fleets = {} if plan is None else {f.fleet: _begin(f) for f in plan.fleets if f.steps}
        self._now = ""

    def shot(self) -> Shot:
        """How the fleet stands that was heard of last."""
        with self._lock:
            fleet = self._fleets.get(self._now)
            if fleet is None:
                return Shot()
            waves = tuple(
                Wave(n, fleet.done[n], len(fleet.failed.get(n, ())), fleet.sizes[n], n == fleet.wave)
                for n in sorted(fleet.sizes)
            )
            done = sum(1 for left in fleet.open.values() if not left) - len(
                [n for n in fleet.bad if not fleet.open[n]]
            )
            return replace(fleet.shot, waves=waves, done=done, failed=len(fleet.bad), count=len(fleet.open))

    def on_report(self, name: str, report: Report) -> None:
        """Takes in one report."""
        with self._lock:
            fleet = self._fleets.get(name)
            if fleet is None:
                return
            self._now = name
            match report.kind:
                case "run":
                    fleet.shot = replace(fleet.shot, begun_s=self._clock.monotonic())
                    for node in report.facts.get("done", ()):
                        _all_done(fleet, node)
                case "availability":
                    _gauge(fleet, report.facts)
                case "step" if report.facts.get("state") == "done" and report.node is not None:
                    _done(fleet, report.node, report.facts["step"])
                case "healthy" if report.node is not None:
                    _done(fleet, report.node, "verify")
                case "failed" if report.node is not None:
                    _failed(fleet, report.node, report.facts.get("step", ""))
                case "evidence" if report.node is not None:
                    _tail(fleet, report)
                case "halt":
                    fleet.shot = replace(fleet.shot, halted=report.text)
                case _:
                    pass


def _begin(plan: FleetPlan) -> _Fleet:
    fleet = _Fleet(Shot(fleet=plan.fleet))
    for step in plan.steps:
        if step.node is None:
            continue
        key = (step.phase, step.node)
        if key not in fleet.left:
            fleet.sizes[step.phase] += 1
        fleet.left[key] = fleet.left.get(key, 0) + 1
        fleet.step_waves.setdefault((step.node, step.kind.value), []).append(step.phase)
        fleet.open[step.node] += 1
    gauges = tuple(
        Gauge(b.scope, b.available_now, b.count, b.floor, b.hard_floor) for b in plan.budgets if b.count
    )
    fleet.shot = replace(fleet.shot, gauges=gauges)
    fleet.wave = min(fleet.sizes, default=0)
    return fleet


def _gauge(fleet: _Fleet, facts: Any) -> None:
    def gauge(scope: str, values: Any) -> Gauge:
        return Gauge(scope, *(values[k] for k in ("available", "count", "floor", "reserve")))

    found = (gauge("fleet", facts), *(gauge(name, v) for name, v in sorted(facts["scopes"].items())))
    fleet.wave = facts["wave"]
    fleet.shot = replace(fleet.shot, gauges=tuple(g for g in found if g.count), reverting=facts["reverting"])


def _done(fleet: _Fleet, node: str, step: str) -> None:
    """A step on the way back is none of a wave."""
    waves = fleet.step_waves.get((node, step))
    if not waves or fleet.shot.reverting:
        return
    wave = waves.pop(0)
    fleet.open[node] -= 1
    fleet.left[wave, node] -= 1
    if fleet.left[wave, node] == 0:
        fleet.done[wave] += 1


def _all_done(fleet: _Fleet, node: str) -> None:
    for (name, step), waves in fleet.step_waves.items():
        if name == node:
            for _ in list(waves):
                _done(fleet, name, step)


def _failed(fleet: _Fleet, node: str, step: str) -> None:
    if fleet.shot.reverting:
        return
    fleet.bad.add(node)
    waves = fleet.step_waves.get((node, step))
    wave = waves[0] if waves else fleet.wave
    fleet.failed.setdefault(wave, set()).add(node)


def _tail(fleet: _Fleet, report: Report) -> None:
    lines = tuple(clean(report.facts["log"]).splitlines()[-TAIL_LINES_MAX:])
    tail = Tail(report.node or "", report.text, lines)
    fleet.shot = replace(fleet.shot, tails=(*fleet.shot.tails, tail)[-TAILS_MAX:])

"""Time, threads and processes of the simulated world: all from one seed, on one thread."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from fleetctl.engine.events import Event
from fleetctl.engine.pool import Lane, Work

START = datetime(2026, 1, 1, tzinfo=UTC)


class SimClock:
    """Monotonic time only moves forward; the wall clock may jump (`skew_s`)."""

    def __init__(self, rng: Random) -> None:
        self.at_s = 1000.0
        self.skew_s = 0.0
        self._rng = rng

    def now(self) -> datetime:
        return START + timedelta(seconds=self.at_s + self.skew_s)

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, duration_s: float) -> None:
        self.at_s += duration_s

    def new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


@dataclass
class SimProcesses:
    """One machine's processes; a pid that is not in `alive` is dead."""

    name: str = "machine-a"
    alive: dict[int, int] = field(default_factory=dict)

    def machine(self) -> str:
        return self.name

    def started(self, pid: int) -> int | None:
        return self.alive.get(pid)


class SimPool:
    """Does submitted work in an order drawn from the seed, one piece at a time, each taking some time.

    `between` is called before every piece: there the world moves on, and another engine may run.
    """

    def __init__(
        self, clock: SimClock, rng: Random, between: Callable[[], None], latency_s: float = 0.2
    ) -> None:
        self._latency_s = latency_s
        self._clock = clock
        self._rng = rng
        self._between = between
        self._ready: list[tuple[Lane, Work]] = []
        self._delayed: list[tuple[float, int, Lane, Work]] = []
        self._events: list[Event] = []
        self._ticket = 0

    def submit(self, lane: Lane, work: Work, at_s: float | None = None) -> None:
        self._ticket += 1
        heapq.heappush(self._delayed, (at_s or 0.0, self._ticket, lane, work))

    def put(self, event: Event) -> None:
        self._events.append(event)

    def next(self, until_s: float) -> Event | None:
        while self._delayed and self._delayed[0][0] <= self._clock.at_s:
            _, _, lane, work = heapq.heappop(self._delayed)
            self._ready.append((lane, work))
        if self._events:
            return self._events.pop(0)
        if self._ready:
            _, work = self._ready.pop(self._rng.randrange(len(self._ready)))
            self._clock.at_s += self._rng.uniform(self._latency_s / 200, self._latency_s)
            self._between()
            return work()
        wake_s = min(until_s, self._delayed[0][0]) if self._delayed else until_s
        self._clock.at_s = max(self._clock.at_s + 0.001, wake_s)
        self._between()
        return None

    def close(self) -> None:
        self._ready.clear()
        self._delayed.clear()

"""The bounded pool: threads that perform what was decided, and the queue in which answers come back.

Only one thread decides; it is the one that calls `next`. The simulator puts a seeded scheduler in this place.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Protocol

from executors.clock import Clock
from fleetctl.engine.events import Event

Work = Callable[[], Event]


class Lane(StrEnum):
    """Effects may take as long as a drain; looking must not wait behind them."""

    ACT = "act"
    LOOK = "look"


class Pool(Protocol):
    """Performs work elsewhere and hands over what comes of it, one event at a time."""

    def submit(self, lane: Lane, work: Work, at_s: float | None = None) -> None:
        """Has the work done, not before `at_s` (monotonic). Its event comes out of `next`."""
        ...

    def put(self, event: Event) -> None:
        """Hands in an event from outside (a signal); may be called from a signal handler."""
        ...

    def next(self, until_s: float) -> Event | None:
        """The next event; None when there is none until that time (monotonic)."""
        ...

    def close(self) -> None:
        """Starts nothing any more. What is being performed is left alone."""
        ...


class ThreadPool:
    """`size` threads a lane. They are daemons: work that hangs must not keep the process from ending."""

    def __init__(self, clock: Clock, size: int) -> None:
        self._clock = clock
        self._size = size
        self._events: SimpleQueue[Event | BaseException] = SimpleQueue()
        self._work: dict[Lane, SimpleQueue[Work | None]] = {lane: SimpleQueue() for lane in Lane}
        self._threads: dict[Lane, int] = dict.fromkeys(Lane, 0)
        self._delayed: list[tuple[float, int, Lane, Work]] = []
        self._ticket = 0
        self._closed = False

    def submit(self, lane: Lane, work: Work, at_s: float | None = None) -> None:
        if at_s is not None and at_s > self._clock.monotonic():
            self._ticket += 1
            heapq.heappush(self._delayed, (at_s, self._ticket, lane, work))
            return
        if self._threads[lane] < self._size:
            self._threads[lane] += 1
            name = f"{lane.value}-{self._threads[lane]}"
            threading.Thread(target=self._serve, args=(lane,), name=name, daemon=True).start()
        self._work[lane].put(work)

    def put(self, event: Event) -> None:
        self._events.put(event)

    def next(self, until_s: float) -> Event | None:
        while True:
            now_s = self._clock.monotonic()
            while self._delayed and self._delayed[0][0] <= now_s:
                _, _, lane, work = heapq.heappop(self._delayed)
                self.submit(lane, work)
            until = min(until_s, self._delayed[0][0]) if self._delayed else until_s
            try:
                got = self._events.get(timeout=max(0.0, until - now_s))
            except Empty:
                if self._clock.monotonic() >= until_s:
                    return None
                continue
            if isinstance(got, BaseException):
                raise got
            return got

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for lane in Lane:
                for _ in range(self._threads[lane]):
                    self._work[lane].put(None)

    def _serve(self, lane: Lane) -> None:
        while (work := self._work[lane].get()) is not None:
            try:
                self._events.put(work())
            except BaseException as e:  # noqa: BLE001 - carried to the deciding thread, which raises it
                self._events.put(e)

"""An outside client of nodes anywhere: which of them were down together, as far as that is certain.

An answer takes its time, and on a loaded machine it is noticed late. A node that failed to answer twice in a row was
down for certain from the end of the first question to the beginning of the last one; only such spans are compared,
so a slow client never accuses a fleet that kept its floor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple

from tests.lab.watcher import Endpoint, page

PERIOD_S = 0.02
JOIN_TIMEOUT_S = 15.0


class Asked(NamedTuple):
    """One question: when it was asked, when its answer (or its lack) was there, and whether the node served."""

    before_s: float
    after_s: float
    served: bool


class Outside:
    """Asks each node for /health from a thread of its own, for the time of a `with` block."""

    def __init__(self, nodes: Mapping[str, Endpoint]) -> None:
        self._nodes = dict(nodes)
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.asked: dict[str, list[Asked]] = {name: [] for name in nodes}

    def __enter__(self) -> Outside:
        for name in self._nodes:
            thread = threading.Thread(target=self._follow, args=(name,), name=f"ask-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)

    def _follow(self, name: str) -> None:
        asked = self.asked[name]
        while True:
            before_s = time.monotonic()
            served = page(*self._nodes[name], "/health", timeout_s=2.0) is not None
            asked.append(Asked(before_s, time.monotonic(), served))
            if self._over.wait(PERIOD_S):
                return

    @property
    def went_down(self) -> set[str]:
        """The nodes that failed to answer at least once."""
        return {name for name, asked in self.asked.items() if not all(a.served for a in asked)}

    def outages(self, name: str) -> list[tuple[float, float]]:
        """The spans in which a node was down for certain."""
        spans: list[tuple[float, float]] = []
        first: Asked | None = None
        last: Asked | None = None
        for asked in [*self.asked[name], Asked(0.0, 0.0, served=True)]:
            if not asked.served:
                first, last = first or asked, asked
            elif first is not None and last is not None:
                if last.before_s > first.after_s:
                    spans.append((first.after_s, last.before_s))
                first = last = None
        return spans

    @property
    def fewest_available(self) -> int:
        """The smallest number of nodes that may have served at one time."""
        marks = [
            (at, step)
            for name in self._nodes
            for a, b in self.outages(name)
            for at, step in ((a, 1), (b, -1))
        ]
        now = most = min(1, len(self.went_down)) if not marks else 0
        for _, step in sorted(marks):
            now += step
            most = max(most, now)
        return len(self._nodes) - most

"""An outside client: it asks nodes for their pages over HTTP, again and again, and remembers how many answered."""

from __future__ import annotations

import http.client
import threading
import time
import types
from collections.abc import Mapping
from dataclasses import dataclass

ANSWER_TIMEOUT_S = 1.0
PERIOD_S = 0.05
STOP_TIMEOUT_S = 10.0

Endpoint = tuple[str, int]


def page(address: str, port: int, path: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> str | None:
    """Text of a page served with status 200, or None when there is none (refused, silent, another status)."""
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace").strip()
        return body if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@dataclass(frozen=True)
class Sighting:
    """One round over all nodes: seconds since the watch began, and what each node answered (None: nothing)."""

    at_s: float
    answers: Mapping[str, str | None]

    @property
    def available(self) -> int:
        """How many nodes answered."""
        return sum(answer is not None for answer in self.answers.values())


class Watcher:
    """Watches nodes from a thread for the time of a `with` block, one thread per node so that none delays another."""

    def __init__(
        self, nodes: Mapping[str, Endpoint], *, path: str = "/health", timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        """Describe a watch.

        Args:
            nodes: name of each node, and the address and port where it serves.
            path: the page to ask for.
            timeout_s: an answer that takes longer counts as none.
        """
        self._nodes = dict(nodes)
        self._path = path
        self._timeout_s = timeout_s
        self._latest: dict[str, str | None] = dict.fromkeys(nodes)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._began = 0.0
        self._threads: list[threading.Thread] = []
        self.sightings: list[Sighting] = []

    @property
    def fewest_available(self) -> int:
        """The smallest number of nodes that answered at one time during the watch."""
        return min(sighting.available for sighting in self.sightings)

    @property
    def answers_seen(self) -> set[str]:
        """Every different text that any node answered."""
        return {answer for seen in self.sightings for answer in seen.answers.values() if answer is not None}

    def _watch(self, name: str, endpoint: Endpoint) -> None:
        while not self._over.wait(PERIOD_S):
            answer = page(*endpoint, self._path, timeout_s=self._timeout_s)
            with self._lock:
                # A sighting per change: the count at each moment is that of the last sighting before it.
                if answer != self._latest[name] or not self.sightings:
                    self._latest[name] = answer
                    self._record()

    def _record(self) -> None:
        self.sightings.append(Sighting(time.monotonic() - self._began, dict(self._latest)))

    def __enter__(self) -> Watcher:
        self._began = time.monotonic()
        self._latest = {
            name: page(*endpoint, self._path, timeout_s=self._timeout_s)
            for name, endpoint in self._nodes.items()
        }
        self._record()
        for name, endpoint in self._nodes.items():
            thread = threading.Thread(
                target=self._watch, args=(name, endpoint), name=f"watch-{name}", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)

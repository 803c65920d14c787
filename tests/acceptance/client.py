"""An outside client that knows nothing of fleetctl: it keeps asking every node and remembers what it saw."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

# Well below the time that a node takes to stop and start again.
PAUSE_S = 0.01


def ask(port: int, path: str = "/version", timeout_s: float = 2.0) -> str | None:
    """What the node on this port answers; None when it does not."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@dataclass
class Watch:
    """Asks each port in a thread of its own; `seen[port]` holds (asked at, answered at, answer)."""

    ports: list[int]
    seen: dict[int, list[tuple[float, float, str | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(p,), daemon=True) for p in self.ports]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def _follow(self, port: int) -> None:
        answers = self.seen.setdefault(port, [])
        while not self._stop.is_set():
            before = time.monotonic()
            answer = ask(port)
            answers.append((before, time.monotonic(), answer))
            time.sleep(PAUSE_S)

    def outages(self, port: int) -> list[tuple[float, float]]:
        """The spans during which this node did not answer: from a first failed request to the last in a row."""
        out: list[tuple[float, float]] = []
        since: float | None = None
        until = 0.0
        for before, after, answer in self.seen[port]:
            if answer is None:
                since = before if since is None else since
                until = after
            elif since is not None:
                out.append((since, until))
                since = None
        if since is not None:
            out.append((since, until))
        return out

    def most_down_at_once(self) -> int:
        """The largest number of nodes whose outages overlap."""
        marks: list[tuple[float, int]] = []
        for port in self.ports:
            for begin, end in self.outages(port):
                marks += [(begin, 1), (end, -1)]
        now = most = 0
        for _, step in sorted(marks):
            now += step
            most = max(most, now)
        return most

    def versions(self, port: int) -> list[str]:
        """The versions that this node answered with, in order, repeats left out."""
        out: list[str] = []
        for _, _, answer in self.seen[port]:
            if answer is not None and (not out or out[-1] != answer):
                out.append(answer)
        return out

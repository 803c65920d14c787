"""Writers that follow a cell from node to node, and remember exactly what was acknowledged."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable

import httpx

from tests.cellz.running import cells

# A frozen node answers nothing: try the next one soon, and the frozen one last.
_REQUEST_TIMEOUT_S = 2.0
_AVOID_S = 5.0
_PAUSE_S = 0.02


class Writer:
    """Appends to one cell through whichever node takes it, until `stop`; `acked` has (sequence, event id)."""

    def __init__(self, cell: str, addresses: Callable[[], list[str]]) -> None:
        self.cell = cell
        self.acked: list[tuple[int, str, int]] = []
        self.tried = 0
        self.last_ack_at = time.monotonic()
        self._addresses = addresses
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Writer:
        """Start writing."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop after the request that is under way."""
        self._ending.set()
        self._thread.join()

    def wait_for(self, count: int, deadline_s: float) -> None:
        """Wait until `count` more events are acknowledged."""
        goal = len(self.acked) + count
        deadline = time.monotonic() + deadline_s
        while len(self.acked) < goal:
            assert time.monotonic() < deadline, f"{self.cell}: no node takes writes"
            time.sleep(0.01)

    def _run(self) -> None:
        preferred = ""
        silent: dict[str, float] = {}
        with httpx.Client(timeout=_REQUEST_TIMEOUT_S) as client:
            for number in itertools.count():
                while not self._ending.is_set():
                    now = time.monotonic()
                    every = sorted(
                        self._addresses(), key=lambda each: (silent.get(each, 0) > now, each != preferred)
                    )
                    preferred = self._attempt(client, every, number, silent)
                    if preferred:
                        break
                    time.sleep(_PAUSE_S)
                if self._ending.is_set():
                    return

    def _attempt(self, client: httpx.Client, order: list[str], number: int, silent: dict[str, float]) -> str:
        """Try the nodes in turn; return the one that acknowledged, or ""."""
        for address in order:
            body = {"event_type": "note", "payload": {"n": number, "try": uuid.uuid4().hex}}
            self.tried += 1
            try:
                answer = client.post(address + cells(f"{self.cell}/events"), json=body)
            except httpx.HTTPError:
                silent[address] = time.monotonic() + _AVOID_S
                continue
            if answer.status_code == 201:
                event = answer.json()["event"]
                self.acked.append((event["sequence"], event["id"], number))
                self.last_ack_at = time.monotonic()
                return address
            assert answer.status_code in (421, 503), answer.text
        return ""


def check(writer: Writer, log: list[dict[str, object]]) -> None:
    """Every acknowledged event is in the log once, at its sequence; the log has no gap and no second copy."""
    sequences = [event["sequence"] for event in log]
    assert sequences == list(range(1, len(log) + 1)), f"{writer.cell}: the log has gaps"
    present = {event["sequence"]: event["id"] for event in log}
    given: dict[int, str] = {}
    for sequence, event_id, _ in writer.acked:
        assert given.setdefault(sequence, event_id) == event_id, f"{writer.cell}: {sequence} was given twice"
        assert present.get(sequence) == event_id, f"{writer.cell}: acknowledged {sequence} is lost"
    assert [each[0] for each in writer.acked] == sorted(given), f"{writer.cell}: acknowledged out of order"
    ids = [event["id"] for event in log]
    assert len(set(ids)) == len(ids)

"""What a cell's live readers share: the newest records, where the log is, and a way to wait.

A reader has no queue of its own. It follows the ring while it can and reads the log when it fell behind, so
a slow one costs nothing and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from fleetctl.cellz.words import Record

# Records kept for live readers; one that is further behind reads pages of the log.
RING = 512


class Frame(NamedTuple):
    """A record as readers get it; encoded once for all of them."""

    sequence: int
    sse: bytes
    json: str


def frame(record: Record) -> Frame:
    """Return the record with its server-sent event: `id` the sequence, `event` the type, `data` the record."""
    event = record.event_type.replace("\r", " ").replace("\n", " ")
    text = f"id: {record.sequence}\nevent: {event}\ndata: {record.json}\n\n"
    return Frame(record.sequence, text.encode(), record.json)


class Feed:
    """The live end of one cell's log; used on the event loop only."""

    def __init__(self, branch: int, last: int) -> None:
        self.branch = branch
        self.last = last
        self.closed = False
        self.cuts: list[int] = []
        self._ring: deque[Frame] = deque(maxlen=RING)
        self._waiters: set[asyncio.Future[bool]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self.readers = 0

    def publish(self, records: list[Record], cut: int | None) -> None:
        """Add records; `cut` is where a restore cut the log before them."""
        if cut is not None:
            self.branch += 1
            self._ring.clear()
            self.cuts.append(cut)
        if records:
            self._ring.extend(map(frame, records))
            self.last = records[-1].sequence
        self.wake()

    def after(self, position: int) -> list[Frame] | None:
        """Return the frames behind `position`, or None when the ring does not reach back that far."""
        wanted = self.last - position
        if wanted <= 0:
            return []
        ring = self._ring
        # The ring is without gaps, so the newest `wanted` frames are the answer, counted from its end.
        return [ring[at] for at in range(-wanted, 0)] if wanted <= len(ring) else None

    def close(self) -> None:
        """End every reader: the cell leaves this node."""
        self.closed = True
        self.wake()

    def wake(self) -> None:
        """Wake every waiter."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            _settle(waiter, True)

    async def wait(self, period_s: float) -> bool:
        """Wait for the next change; return False when it is time for a keep-alive instead.

        One timer serves all readers: a timer each would cost more than what they are told.
        """
        loop = asyncio.get_running_loop()
        if self._ticker is None:
            self._ticker = loop.call_later(period_s, self._tick)
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)

    def _tick(self) -> None:
        self._ticker = None
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            _settle(waiter, False)


def _settle(waiter: asyncio.Future[bool], changed: bool) -> None:
    if not waiter.done():
        waiter.set_result(changed)

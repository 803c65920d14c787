"""Time and ids of the daemon: the named home of what is banned elsewhere in this package."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

# One read of the system's generator serves this many ids.
_IDS_PER_READ = 256
_ID_BYTES = 10
# Ids of one millisecond count up in twelve bits; the counter starts anew in the lower half.
_COUNTER_MASK = 0xFFF


class Clock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC; for records, never for deciding who holds a lease."""
        return datetime.now(UTC)  # noqa: TID251  (the named home)

    def monotonic(self) -> float:
        """Return seconds that never go back; leases are judged by these."""
        return time.monotonic()  # noqa: TID251  (the named home)

    def sleep(self, seconds: float) -> None:
        """Wait, on a pool thread; the loop never calls this."""
        time.sleep(seconds)  # noqa: TID251  (the named home)

    def stamp(self) -> str:
        """Return now as SQLite holds it: RFC 3339 with `+00:00`, in microseconds."""
        return self.now().isoformat(timespec="microseconds")


class Ids:
    """Event ids: version 4 in shape, ordered in time, unique by 58 random bits a millisecond and counter.

    Random keys make every insert dirty another page of the unique index; ordered ones keep a batch of 100
    in a few pages (docs/decisions/0703).
    """

    def __init__(self) -> None:
        self._pool = ""
        self._at = 0
        self._last_ms = 0
        self._counter = 0

    def event_id(self) -> str:
        """Return a fresh id, greater as text than those given before."""
        ms = time.time_ns() // 1_000_000  # noqa: TID251  (the named home)
        if ms > self._last_ms:
            self._last_ms, self._counter = ms, 0
        else:
            self._counter += 1
            if self._counter > _COUNTER_MASK:
                self._last_ms, self._counter = self._last_ms + 1, 0
        if self._at >= len(self._pool):
            self._pool = os.urandom(_ID_BYTES * _IDS_PER_READ).hex()  # noqa: TID251  (the named home)
            self._at = 0
        h = self._pool[self._at : self._at + _ID_BYTES * 2]
        self._at += _ID_BYTES * 2
        t = f"{self._last_ms:012x}"
        return f"{t[:8]}-{t[8:]}-4{self._counter:03x}-{'89ab'[int(h[0], 16) & 3]}{h[1:4]}-{h[4:16]}"

    def token(self) -> str:
        """Return 128 random bits in hexadecimal, for nonces and node ids."""
        return os.urandom(16).hex()  # noqa: TID251  (the named home)


def plain_uuid(token: str) -> str:
    """Return 32 hexadecimal digits as a UUID of version 4."""
    return f"{token[:8]}-{token[8:12]}-4{token[13:16]}-a{token[17:20]}-{token[20:]}"

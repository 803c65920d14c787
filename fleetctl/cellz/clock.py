"""Time and ids of the daemon: the named home of what is banned elsewhere in this package."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

# One read of the system's generator serves this many ids.
_IDS_PER_READ = 256
_ID_BYTES = 8
# Ids of one millisecond count up in twelve bits.
_COUNTER_MAX = 0xFFF


class Clock:
    """The machine's clock."""

    _second = -1
    _second_text = ""

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
        second, microseconds = divmod(time.time_ns() // 1000, 1_000_000)  # noqa: TID251  (the named home)
        if second != self._second:
            # A stamp a write: the text of a second is made once.
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = second
        return f"{self._second_text}.{microseconds:06d}+00:00"


class Ids:
    """Event ids: version 4 in shape, ordered in time, unique by 62 random bits and a counter a millisecond.

    Random keys make every insert dirty another page of the unique index; ordered ones keep a batch of 100
    in a few pages (docs/decisions/0703).
    """

    def __init__(self) -> None:
        self._tails: list[str] = []
        self._last_ms = 0
        self._counter = 0
        self._head = ""

    def event_id(self) -> str:
        """Return a fresh id, greater as text than those given before."""
        ms = time.time_ns() // 1_000_000  # noqa: TID251  (the named home)
        if ms > self._last_ms or self._counter >= _COUNTER_MAX:
            self._last_ms, self._counter = max(ms, self._last_ms + 1), 0
            text = f"{self._last_ms:012x}"
            self._head = f"{text[:8]}-{text[8:]}-4"
        else:
            self._counter += 1
        if not self._tails:
            self._draw()
        return f"{self._head}{self._counter:03x}-{self._tails.pop()}"

    def _draw(self) -> None:
        drawn = os.urandom(_ID_BYTES * _IDS_PER_READ).hex()  # noqa: TID251  (the named home)
        width = _ID_BYTES * 2
        for at in range(0, len(drawn), width):
            part = drawn[at : at + width]
            self._tails.append(f"{'89ab'[int(part[0], 16) & 3]}{part[1:4]}-{part[4:]}")

    def token(self) -> str:
        """Return 128 random bits in hexadecimal, for nonces and node ids."""
        return os.urandom(16).hex()  # noqa: TID251  (the named home)


def plain_uuid(token: str) -> str:
    """Return 32 hexadecimal digits as a UUID of version 4."""
    return f"{token[:8]}-{token[8:12]}-4{token[13:16]}-a{token[17:20]}-{token[20:]}"

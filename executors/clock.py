"""Time and ids: the one home of the calls that are banned elsewhere. Everything else gets them as arguments."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. `monotonic` is in seconds; `now` is UTC."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def sleep(self, duration_s: float) -> None: ...

    def new_id(self) -> str:
        """A fresh id: 32 hex digits."""
        ...


class SystemClock:
    """The machine's own clock and random ids."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)

    def new_id(self) -> str:
        return uuid.uuid4().hex


def rfc3339(moment: datetime) -> str:
    """UTC text to the millisecond: 2026-11-30T10:20:30.123Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"

"""What is under way, as a value that views read: who is waited for, for what, since when, and what was last heard."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from executors.clock import Clock
from fleetctl.cli.terminal import one_line
from fleetctl.cli.views.table import span

# Enough of a remote answer to see what it is, on one line of a terminal.
DETAIL_COLUMNS_MAX = 100


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is waited for: `subject` (a node or a host), what it is `doing`, `since` (monotonic seconds)."""

    subject: str
    doing: str
    since_s: float
    detail: str = ""

    def text(self, now_s: float) -> str:
        """`web-0: start, for 1.2s (connection refused)`"""
        heard = f" ({self.detail})" if self.detail else ""
        who = f"{self.subject}: " if self.subject else ""
        return f"{who}{self.doing}, for {span(now_s - self.since_s)}{heard}"


@dataclass(frozen=True, slots=True)
class Line:
    """Something that has happened. `style` as in `terminal.Paint`, or empty."""

    subject: str
    text: str
    style: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}" if self.subject else self.text


class Board:
    """Safe for several threads: the engine's pool writes, a view's own thread reads."""

    def __init__(self, clock: Clock, listener: Callable[[Line], None]) -> None:
        self.clock = clock
        self._listener = listener
        self._items: dict[str, Item] = {}
        self._lock = threading.Lock()

    def begin(self, key: str, subject: str, doing: str, *, quiet: bool = False) -> None:
        """Something is waited for from now on; `quiet` ones make no line of their own."""
        with self._lock:
            before = self._items.get(key)
            self._items[key] = Item(subject, doing, self.clock.monotonic())
        if not quiet and (before is None or before.doing != doing):
            self._listener(Line(subject, doing))

    def heard(self, key: str, detail: str) -> None:
        """What was last heard of it; text from elsewhere is cleaned."""
        detail = one_line(detail)[:DETAIL_COLUMNS_MAX]
        with self._lock:
            item = self._items.get(key)
            if item is not None:
                self._items[key] = replace(item, detail=detail)

    def end(self, key: str) -> None:
        """It is not waited for any more."""
        with self._lock:
            self._items.pop(key, None)

    def note(self, text: str, style: str = "", subject: str = "") -> None:
        """Something has happened that nobody waited for."""
        self._listener(Line(subject, text, style))

    def items(self) -> list[Item]:
        """What is under way, the longest-waiting first."""
        with self._lock:
            return sorted(self._items.values(), key=lambda i: i.since_s)

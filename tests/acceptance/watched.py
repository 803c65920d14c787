"""A terminal whose screen is kept as a person sees it: rows and columns, after every escape sequence."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from fcntl import ioctl
from termios import TIOCSWINSZ, tcgetattr

import pyte

from tests.acceptance.cli import Workspace
from tests.acceptance.terminal import Person


class Watched(Person):
    """`fleetctl` with a screen of `columns` and `rows`; `lines` are those that show something now."""

    def __init__(
        self, workspace: Workspace, *args: str, columns: int = 100, rows: int = 30, **env: str
    ) -> None:
        self.raw = b""
        self.shown = pyte.HistoryScreen(columns, rows, history=2000)
        self._stream = pyte.ByteStream(self.shown)
        super().__init__(workspace, *args, columns=columns, rows=rows, **env)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.shown.display if line.strip()]

    def until(self, fact: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Reads on until the fact holds; fails with the screen when it does not come."""
        deadline = time.monotonic() + timeout_s
        while not fact():
            assert time.monotonic() < deadline, f"waited for {what}; the screen:\n" + "\n".join(self.lines)
            if not self._read(0.1) and self.process.poll() is not None:
                assert fact(), f"it ended without {what}; the screen:\n" + "\n".join(self.lines)

    def resize(self, columns: int, rows: int, *, rewraps: bool = False) -> None:
        """As a window does it. What stands on the screen keeps its end; a narrower one cuts its lines off, or wraps
        them anew.
        """
        ioctl(self._master, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        screen = self.shown
        at = screen.cursor.y
        text = [line.rstrip() for line in screen.display[: at + 1]]
        end = len(text[-1])
        if rewraps:
            text = [line[n : n + columns] for line in text for n in range(0, max(1, len(line)), columns)]
            end = len(text[-1])
        screen.resize(rows, columns)
        screen.reset()
        # Colours do not matter here, only where text stands.
        self._stream.feed("\r\n".join(line[: columns - 1] for line in text[-rows:]).encode())
        screen.cursor.x = min(end, columns - 1)

    def _took(self, data: bytes) -> None:
        self.raw += data
        self._stream.feed(data)

    def attributes(self) -> list[object]:
        """The terminal's modes, as the kernel keeps them."""
        return tcgetattr(self._master)

    def deaf_until(self, fact: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Reads nothing meanwhile: the terminal is stopped."""
        deadline = time.monotonic() + timeout_s
        while not fact():
            assert time.monotonic() < deadline, f"waited for {what}"
            time.sleep(0.05)

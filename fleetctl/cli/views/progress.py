"""What an operator sees while something runs: a live view on a terminal, plain timestamped lines elsewhere.

Both say what is waited for and since when. Both are written by a thread of their own, out of a bounded queue: a
terminal that is slow or stopped holds up that thread and nothing else, and what it cannot take is left out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from executors.clock import Clock
from fleetctl.cli.terminal import Terminal
from fleetctl.cli.views.board import Board, Line

if TYPE_CHECKING:
    from rich.text import Text

    from fleetctl.cli.views.scene import Scene

# Silence longer than this makes people reach for Ctrl-C.
HEARTBEAT_S = 4.0
# How often the live view is drawn when nothing happens, for the seconds that go by; and at most.
REDRAW_S = 0.25
REDRAW_MIN_S = 0.05
# Lines that a terminal has not taken yet; what comes on top of these is counted and left out.
BACKLOG_MAX = 2000
# How long the end waits for a terminal that takes nothing.
PATIENCE_S = 2.0


def wanted(environ: Mapping[str, str], terminal: Terminal) -> bool:
    """Whether a live view can be shown: a person at a terminal that can move its cursor, and no NO_COLOR, no CI."""
    if environ.get("NO_COLOR") or environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    if environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    return terminal.interactive and terminal.err.isatty()


@contextmanager
def shown(terminal: Terminal, clock: Clock, *, live: bool, scene: Scene | None = None) -> Iterator[Board]:
    """A board whose lines appear while the block runs; `live` says that stderr is a terminal, `scene` what is drawn."""
    gate = _Gate(terminal.err_writer())
    face = _Live(terminal, clock, scene, gate) if live else _Lines(terminal, clock, gate)
    writer = _Writer(face, gate, clock, terminal)
    writer.start()
    try:
        yield writer.board
    finally:
        writer.stop()


class Stamped(NamedTuple):
    """A line and when it was said, which may be long before it is written."""

    at: datetime
    said_s: float
    line: Line


class _Face(Protocol):
    """How it looks. Everything is called by the writer's thread."""

    rest_s: float

    def show(self, lines: list[Stamped], board: Board) -> None:
        """Shows what was said since the last call, and what is waited for now."""
        ...

    def end(self) -> None: ...


class _Gate:
    """What writes, until its thread is given up: what that still had to say must not come after the last word."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.shut_for: threading.Thread | None = None

    def __call__(self, text: str) -> None:
        if self.shut_for is threading.current_thread():
            raise OSError("the command has ended")
        self._write(text)


class _Writer:
    """The queue and its thread."""

    def __init__(self, face: _Face, gate: _Gate, clock: Clock, terminal: Terminal) -> None:
        self._face = face
        self._gate = gate
        self._clock = clock
        self._terminal = terminal
        self._lines: deque[Stamped] = deque()
        self._left_out = 0
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="view", daemon=True)
        self.board = Board(clock, self._take)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Shows what is left. A terminal that takes nothing is given up: its thread stays behind, in its last write."""
        self._stopped.set()
        self._woken.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            self._gate.shut_for = self._thread
            self._terminal.owe(self._face.end)

    def _take(self, line: Line) -> None:
        with self._lock:
            if len(self._lines) >= BACKLOG_MAX:
                self._left_out += 1
                return
            self._lines.append(Stamped(self._clock.now(), self._clock.monotonic(), line))
        self._woken.set()

    def _taken(self) -> list[Stamped]:
        with self._lock:
            lines, left_out = list(self._lines), self._left_out
            self._lines.clear()
            self._left_out = 0
        if left_out:
            text = f"{left_out} lines left out: the terminal did not take them in time"
            lines.append(Stamped(self._clock.now(), self._clock.monotonic(), Line("", text, "yellow")))
        return lines

    def _serve(self) -> None:
        try:
            while True:
                stopped = self._stopped.is_set()
                self._woken.clear()
                self._face.show(self._taken(), self.board)
                if stopped:
                    self._face.end()
                    return
                self._woken.wait(self._face.rest_s)
                self._stopped.wait(REDRAW_MIN_S)
        except OSError:
            pass  # the terminal is gone: the work goes on without it


class _Lines:
    """One line an event, with the time; a heartbeat names what is waited for when nothing else was said."""

    def __init__(self, terminal: Terminal, clock: Clock, write: Callable[[str], None]) -> None:
        self._paint = terminal.err_paint
        self._write = write
        self._clock = clock
        self._said_s = clock.monotonic()
        self.rest_s = HEARTBEAT_S / 4

    def show(self, lines: list[Stamped], board: Board) -> None:
        now_s = self._clock.monotonic()
        items = board.items()
        if not lines and items and now_s - self._said_s >= HEARTBEAT_S:
            more = f"; and {len(items) - 3} more" if len(items) > 3 else ""
            text = "waiting for " + "; ".join(i.text(now_s) for i in items[:3]) + more
            lines.append(Stamped(self._clock.now(), now_s, Line("", text)))
        if lines:
            self._said_s = lines[-1].said_s
            self._write("".join(self._line(said.at, said.line) for said in lines))

    def end(self) -> None:
        """Nothing is left on the screen that would have to go."""

    def _line(self, at: datetime, line: Line) -> str:
        text = str(line)
        shown = self._paint(line.style, text) if line.style else text
        return f"{at:%Y-%m-%dT%H:%M:%SZ} {shown}\n"


class _Live:
    """Finished things scroll by; how it stands and what is under way is at the bottom and drawn in place."""

    rest_s = REDRAW_S

    def __init__(
        self, terminal: Terminal, clock: Clock, scene: Scene | None, write: Callable[[str], None]
    ) -> None:
        from fleetctl.cli.views.scene import Scene
        from fleetctl.cli.views.screen import Screen

        self._clock = clock
        self._scene = scene or Scene(None, clock)
        self._screen = Screen(terminal.err, write, colour=terminal.err_paint.enabled)
        self._plain = "utf" not in (terminal.err.encoding or "utf-8").lower()

    def show(self, lines: list[Stamped], board: Board) -> None:
        from fleetctl.cli.views.frame import frame

        columns, rows = self._screen.size()
        now_s = self._clock.monotonic()
        picture = frame(self._scene.shot(), board.items(), now_s, columns, rows, plain=self._plain)
        self._screen.draw([self._line(said.at, said.line) for said in lines], picture)

    def end(self) -> None:
        self._screen.clear()

    def _line(self, at: datetime, line: Line) -> Text:
        from rich.text import Text

        text = Text()
        text.append(f"{at:%H:%M:%S} ", style="dim")
        text.append(str(line), style=line.style)
        return text

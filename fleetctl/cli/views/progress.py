"""What an operator sees while something runs: a live view on a terminal, plain timestamped lines elsewhere.

Both say what is waited for and since when; neither can stop the work, since a failed write is given up quietly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from executors.clock import Clock
from fleetctl.cli.terminal import Terminal
from fleetctl.cli.views.board import Board, Line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

# Silence longer than this makes people reach for Ctrl-C.
HEARTBEAT_S = 4.0
# More than this many waiting nodes fill a terminal without telling more.
SHOWN_MAX = 12
REFRESHES_PER_S = 4


@contextmanager
def shown(terminal: Terminal, clock: Clock, *, live: bool) -> Iterator[Board]:
    """A board whose lines appear while the block runs; `live` says that stderr is a terminal."""
    if live:
        view: _Lines | _Live = _Live(terminal, clock)
    else:
        view = _Lines(terminal, clock)
    view.start()
    try:
        yield view.board
    finally:
        view.stop()


class _Lines:
    """One line an event, with the time; a heartbeat names what is waited for when nothing else was said."""

    def __init__(self, terminal: Terminal, clock: Clock) -> None:
        self._terminal = terminal
        self._clock = clock
        self._said_s = clock.monotonic()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.board = Board(clock, self._say)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _say(self, line: Line) -> None:
        with self._lock:
            self._said_s = self._clock.monotonic()
            now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            text = str(line)
            paint = self._terminal.err_paint
            self._terminal.say(f"{now} {paint(line.style, text) if line.style else text}")

    def _beat(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S / 4):
            now_s = self._clock.monotonic()
            items = self.board.items()
            if now_s - self._said_s < HEARTBEAT_S or not items:
                continue
            more = f"; and {len(items) - 3} more" if len(items) > 3 else ""
            self._say(Line("", "waiting for " + "; ".join(i.text(now_s) for i in items[:3]) + more))


class _Live:
    """Finished things scroll by; what is under way stays at the bottom and is redrawn."""

    def __init__(self, terminal: Terminal, clock: Clock) -> None:
        from rich.console import Console
        from rich.live import Live

        self._clock = clock
        self.board = Board(clock, self._say)
        self._console: Console = Console(
            file=terminal.err,
            no_color=not terminal.err_paint.enabled,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._live: Live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self) -> None:
        self._live.start()

    def stop(self) -> None:
        self._live.stop()

    def _say(self, line: Line) -> None:
        from rich.text import Text

        text = Text(overflow="fold")
        text.append(self._clock.now().strftime("%H:%M:%S "), style="dim")
        text.append(str(line), style=line.style)
        self._console.print(text)

    def _render(self) -> RenderableType:
        from rich.text import Text

        now_s = self._clock.monotonic()
        items = self.board.items()
        rows: list[Any] = [
            Text(f"  … {i.text(now_s)}", overflow="ellipsis", no_wrap=True) for i in items[:SHOWN_MAX]
        ]
        if len(items) > SHOWN_MAX:
            rows.append(Text(f"  … and {len(items) - SHOWN_MAX} more"))
        return Text("\n", overflow="ellipsis", no_wrap=True).join(rows)

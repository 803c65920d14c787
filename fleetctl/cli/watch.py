"""A glance again and again: drawn in its place on a terminal, one below the other elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleetctl.cli.invocation import Invocation
from fleetctl.cli.views.screen import Screen

if TYPE_CHECKING:
    from rich.text import Text

# How often the terminal's size is looked at between two glances.
SIZE_POLL_S = 0.25


def watch(invocation: Invocation, interval_s: float, glance: Callable[[], str], *, stamp: bool) -> None:
    """Shows what `glance` gives, and again `interval_s` after it was shown, until KeyboardInterrupt or until nobody
    reads any more. `stamp` puts the time above each, where they do not replace one another.
    """
    terminal = invocation.terminal
    moves = invocation.environ.get("TERM", "dumb") not in ("", "dumb")
    if stamp and moves and terminal.out.isatty():
        _in_place(invocation, interval_s, glance)
        return
    while not terminal.out_closed:
        text = glance()
        terminal.data(f"{invocation.clock.now():%Y-%m-%dT%H:%M:%SZ}\n{text}\n\n" if stamp else text)
        terminal.flush()
        invocation.clock.sleep(interval_s)


def _in_place(invocation: Invocation, interval_s: float, glance: Callable[[], str]) -> None:
    from rich.text import Text

    terminal, clock = invocation.terminal, invocation.clock
    screen = Screen(terminal.out, terminal.out_writer(), colour=terminal.out_paint.enabled)
    try:
        while not terminal.out_closed:
            text = f"{glance()}\n\n{clock.now():%H:%M:%S}, again every {interval_s:g} s; Ctrl-C ends it"
            lines = [Text.from_ansi(line) for line in text.split("\n")]
            until_s, size = clock.monotonic() + interval_s, (0, 0)
            while clock.monotonic() < until_s:
                if size != screen.size():
                    size = screen.size()
                    screen.draw([], _fitted(lines, *size))
                clock.sleep(min(SIZE_POLL_S, interval_s))
    finally:
        terminal.data("\n")


def _fitted(lines: list[Text], columns: int, rows: int) -> list[Text]:
    """What fits: the rest is counted; the last line is kept."""
    from rich.text import Text

    if len(lines) > rows:
        kept = max(0, rows - 2)
        lines = [*lines[:kept], Text(f"  … {len(lines) - kept - 1} more lines"), lines[-1]][-rows:]
    fitted = []
    for line in lines:
        shown = line.copy()
        shown.truncate(columns, overflow="ellipsis")
        fitted.append(shown)
    return fitted

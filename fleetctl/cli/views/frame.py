"""The live view's picture, as lines that fit the terminal: pure, from a scene and what is waited for.

    fleet/hello  wave 2 of 3, 4 of 10 done, for 1m12s
    available    [################|###...] 8 of 10, floor 8, reserve 3
    waves        1 done (1 node)  2 under way (3 of 6)  3 to come (3 nodes)
      web-4      waiting for health, for 3.2s (503 Service Unavailable from /health)
      web-1 |    the last lines of its own output

What does not fit is left out from the bottom; the first two lines are there on the smallest terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetctl.cli.terminal import one_line
from fleetctl.cli.views.board import Item
from fleetctl.cli.views.scene import Gauge, Shot, Tail, Wave
from fleetctl.cli.views.table import span

if TYPE_CHECKING:
    from rich.text import Text

# More than this many waiting nodes fill a terminal without telling more.
ITEMS_MAX = 12
TAIL_LINES_MAX = 5
WAVES_SHOWN_MAX = 6
GAUGES_MAX = 4
BAR_COLUMNS_MIN, BAR_COLUMNS_MAX = 8, 40
# What stands beside the bar.
_BESIDE_BAR = 48
RESERVE_COLUMNS_MIN = 60


def frame(
    shot: Shot, items: Sequence[Item], now_s: float, columns: int, rows: int, *, plain: bool
) -> list[Text]:
    """Lines that fit into `columns`, at most `rows` of them; `plain`: only characters that every terminal has."""
    lines: list[Text] = []
    if shot.fleet:
        lines.append(_head(shot, now_s))
        lines += [_gauge(g, columns, plain=plain) for g in shot.gauges[:GAUGES_MAX]][: max(1, rows - 2)]
        if len(shot.waves) > 1 and not shot.reverting and rows > len(lines) + 1:
            lines.append(_waves(shot.waves))
    tails = [line for tail in shot.tails[-1:] for line in _tail(tail)]
    room = rows - len(lines)
    shown = min(len(items), ITEMS_MAX, max(0, room - min(len(tails), room // 2)))
    if shown < len(items):
        shown = max(0, shown - 1)
    lines += [_item(i, now_s) for i in items[:shown]]
    if shown < len(items):
        lines.append(_text(f"  and {len(items) - shown} more" if shown else f"  {len(items)} under way"))
    lines += tails[: max(0, rows - len(lines))]
    for line in lines:
        line.truncate(columns, overflow="ellipsis")
    return lines[:rows]


def _text(text: str = "", style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, end="")


def _head(shot: Shot, now_s: float) -> Text:
    line = _text()
    line.append(f"fleet/{shot.fleet}", style="bold")
    current = next((n for n, w in enumerate(shot.waves, start=1) if w.now), 0)
    words = []
    if shot.reverting:
        words.append("going back")
    elif len(shot.waves) > 1 and current:
        words.append(f"wave {current} of {len(shot.waves)}")
    words.append(f"{shot.done} of {shot.count} done")
    line.append("  " + ", ".join(words))
    if shot.failed:
        line.append(f", {shot.failed} failed", style="red")
    line.append(f", for {span(now_s - shot.begun_s)}", style="dim")
    if shot.halted and not shot.reverting:
        line.append(f"  {one_line(shot.halted)}", style="yellow")
    return line


def _gauge(gauge: Gauge, columns: int, *, plain: bool) -> Text:
    scope = "" if gauge.scope == "fleet" else f" in {gauge.scope}"
    width = min(BAR_COLUMNS_MAX, max(BAR_COLUMNS_MIN, columns - _BESIDE_BAR - len(scope)))
    style = "green" if gauge.available >= gauge.floor else "red"
    if gauge.available == gauge.floor:
        style = "yellow"
    line = _text("available  ")
    full, empty, mark = bar(gauge, width, plain=plain)
    line.append("[" if plain else "▕")
    line.append(full[0], style=style)
    line.append(empty[0], style="dim")
    line.append(mark, style="bold")
    line.append(full[1], style=style)
    line.append(empty[1], style="dim")
    line.append("]" if plain else "▏")
    line.append(f" {gauge.available} of {gauge.count}{scope}", style=style)
    line.append(f", floor {gauge.floor}", style="dim")
    if columns >= RESERVE_COLUMNS_MIN:
        line.append(f", reserve {gauge.reserve}", style="dim")
    return line


def bar(gauge: Gauge, width: int, *, plain: bool) -> tuple[tuple[str, str], tuple[str, str], str]:
    """The bar's full and empty cells left and right of the mark that stands at the floor, and that mark.

    `width` cells in all beside the mark. What serves at the floor or above never looks as if it were below.
    """
    count = max(1, gauge.count)
    at = round(width * min(gauge.floor, count) / count)
    filled = round(width * min(max(gauge.available, 0), count) / count)
    filled = max(filled, at) if gauge.available >= gauge.floor else min(filled, max(0, at - 1))
    full, empty, mark = ("#", ".", "|") if plain else ("█", "░", "┃")
    left, right = min(filled, at), max(0, filled - at)
    return (full * left, full * right), (empty * (at - left), empty * (width - at - right)), mark


def _waves(waves: Sequence[Wave]) -> Text:
    """The waves around the one that is under way."""
    current = next((n for n, w in enumerate(waves) if w.now), 0)
    first = max(0, min(current - 1, len(waves) - WAVES_SHOWN_MAX))
    line = _text("waves     ")
    if first:
        line.append(" …")
    for number, wave in enumerate(waves[first : first + WAVES_SHOWN_MAX], start=first + 1):
        nodes = f"{wave.count} node{'s' if wave.count != 1 else ''}"
        failed = f", {wave.failed} failed" if wave.failed else ""
        if wave.done == wave.count:
            line.append(f" {number} done ({nodes}) ", style="green")
        elif wave.now:
            line.append(f" {number} under way ({wave.done} of {wave.count}{failed}) ", style="bold")
        elif wave.failed:
            line.append(f" {number} failed ({wave.done} of {wave.count}{failed}) ", style="red")
        else:
            line.append(f" {number} to come ({nodes}) ", style="dim")
    if first + WAVES_SHOWN_MAX < len(waves):
        line.append(" …")
    return line


def _item(item: Item, now_s: float) -> Text:
    line = _text("  ")
    if item.subject:
        line.append(f"{item.subject} ", style="cyan")
    line.append(f"{item.doing}, for {span(now_s - item.since_s)}")
    if item.detail:
        line.append(f" ({item.detail})", style="dim")
    return line


def _tail(tail: Tail) -> list[Text]:
    """Each line bears the node's name: it is what the node says, not fleetctl."""
    if not tail.lines:
        return []
    return [_text(f"  {tail.node} | {one_line(text)}", "dim") for text in tail.lines[-TAIL_LINES_MAX:]]

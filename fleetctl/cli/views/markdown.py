"""Markdown that text from elsewhere cannot break out of, cut in the middle before it grows too long.

Whatever is not written in this program stands in a code span or a fenced block: there, no Markdown, HTML,
mention or link means anything. Our own words stand outside. A page is a head that everybody reads and folds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from fleetctl.cli.terminal import clean, one_line

# A comment on GitHub is refused from 65,536 characters on.
COMMENT_MAX = 65_535
# GitHub drops the summary of a step that is larger.
SUMMARY_MAX_B = 2**20
# A text in a line of the head; the whole of it stands in a fold.
INLINE_MAX = 240
# A line of a fold.
LINE_MAX = 1_000
# Lines of one kind in the head.
LISTED_MAX = 12
_TICKS = re.compile("`+")


def code(text: str, limit: int = INLINE_MAX) -> str:
    """Text from elsewhere as a code span, on one line and not too long."""
    shown = one_line(text)
    if len(shown) > limit:
        shown = shown[: limit // 2] + " … " + shown[-(limit // 2) :]
    # One more tick than any run inside; a space keeps ticks at the ends apart, and is not shown.
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def bullets(lines: Sequence[str]) -> list[str]:
    """List items, the last of which says how many more there are."""
    more = len(lines) - LISTED_MAX
    shown = lines if more <= 0 else lines[: LISTED_MAX - 1]
    return [f"- {line}" for line in shown] + ([f"- … and {more + 1} more, see below"] if more > 0 else [])


@dataclass(frozen=True, slots=True)
class Fold:
    """A part that opens on a click: text from anywhere, shown as it is."""

    title: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, title: str, text: str) -> Fold:
        """A fold with these lines, each as long as a line may be."""
        found = (clean(line) for line in text.rstrip("\n").split("\n"))
        return cls(
            title, tuple(line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…" for line in found)
        )


@dataclass(slots=True)
class Page:
    """`marker` is a comment that nobody sees, by which a bot finds its own earlier comment."""

    marker: str
    head: list[str] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)

    def render(self, limit: int = COMMENT_MAX, measure: Callable[[str], int] | None = None) -> str:
        """The page within `limit`, in the units of `measure` (default: as GitHub counts a comment)."""
        size = measure or characters
        head = "\n".join([self.marker, *self.head]) + "\n"
        folds, frames = self.folds, [_frame(fold) for fold in self.folds]
        if _sum(frames, size) > (limit - size(head)) // 2:
            # Many small folds are one large one: their frames alone would take the room.
            lines = [line for fold in folds for line in (f"== {one_line(fold.title)}", *fold.lines, "")]
            folds = [Fold("All of it", tuple(lines))]
            frames = [_frame(folds[0])]
        left = limit - size(head) - _sum(frames, size)
        if left < len(folds) * 2 * size(_left_out(0)):
            return "\n".join(_cut([self.marker, *self.head], limit, size, "- …")) + "\n"
        parts = [head]
        rooms = _shared([sum(size(line) + 1 for line in fold.lines) for fold in folds], left)
        for fold, room, (before, after) in zip(folds, rooms, frames, strict=True):
            parts += [before, *(f"{line}\n" for line in _cut(fold.lines, room, size, None)), after]
        return "".join(parts)


def _sum(frames: Sequence[tuple[str, str]], size: Callable[[str], int]) -> int:
    return sum(size(before) + size(after) for before, after in frames)


def characters(text: str) -> int:
    """The length in UTF-16 units: never less than what a limit in characters may count."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def octets(text: str) -> int:
    """The length in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _frame(fold: Fold) -> tuple[str, str]:
    """What stands before and after a fold's lines. The fence is longer than any that the lines hold."""
    fenced = (line for line in fold.lines if "```" in line)
    longest = max((len(run) for line in fenced for run in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    title = escape(one_line(fold.title))
    return f"\n<details>\n<summary>{title}</summary>\n\n{fence}text\n", f"{fence}\n\n</details>\n"


def _shared(wanted: Sequence[int], left: int) -> list[int]:
    """What each gets of what is left: small ones all they want, large ones the same."""
    given = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for done, i in enumerate(order):
        given[i] = min(wanted[i], left // (len(order) - done))
        left -= given[i]
    return given


def _cut(lines: Sequence[str], room: int, size: Callable[[str], int], note: str | None) -> list[str]:
    """The lines, or as many from both ends as there is room for, with a note of how many are missing."""
    if sum(size(line) + 1 for line in lines) <= room:
        return list(lines)
    room -= size(note or _left_out(len(lines))) + 1
    ends: tuple[list[str], list[str]] = ([], [])
    first, last = 0, len(lines) - 1
    while first <= last:
        at_front = len(ends[0]) <= len(ends[1])
        line = lines[first if at_front else last]
        room -= size(line) + 1
        if room < 0:
            break
        ends[0 if at_front else 1].append(line)
        first, last = (first + 1, last) if at_front else (first, last - 1)
    return [*ends[0], note or _left_out(last - first + 1), *reversed(ends[1])]


def _left_out(count: int) -> str:
    return f"… {count:,} lines left out …"

"""A terminal with lines that scroll by and a picture below them that is drawn anew in its place.

No mode of the terminal is changed (no hidden cursor, no other screen, no raw input), so there is nothing to restore,
not even after a kill -9. One write for one picture; where the terminal does not take it, only the writer's thread waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

SIZE_DEFAULT = (80, 24)
# The column that stays free: a terminal wraps when its last one is written, each at its own moment.
MARGIN = 1


class Screen:
    """Draws through `write`. `stream` is only asked for its size; `colour` False: no colours."""

    def __init__(self, stream: TextIO, write: Callable[[str], None], *, colour: bool) -> None:
        self._stream = stream
        self._write = write
        self._colour = colour
        self._widths: list[int] = []
        self._columns = 0

    def size(self) -> tuple[int, int]:
        """Columns and rows that a picture may take now."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            found = os.terminal_size(SIZE_DEFAULT)
        columns, rows = found.columns or SIZE_DEFAULT[0], found.lines or SIZE_DEFAULT[1]
        return max(1, columns - MARGIN), max(1, rows - 1)

    def draw(self, above: Sequence[Text], picture: Sequence[Text]) -> None:
        """Puts lines above the picture for good, and the picture in the place of the last one."""
        columns = self.size()[0] + MARGIN
        out = [self._back(columns)]
        console = self._console(columns)
        if above:
            # They may wrap, over what is left of the picture; erasing after them could take their last character.
            out.append("\x1b[J")
        out += [f"{_rendered(console, line)}\r\n" for line in above]
        out.append("\r\n".join(f"{_rendered(console, line)}\x1b[K" for line in picture))
        out.append("\x1b[J")
        self._widths, self._columns = [line.cell_len for line in picture], columns
        self._write("".join(out))

    def clear(self) -> None:
        """Takes the picture away."""
        if self._widths:
            self._write(f"{self._back(self.size()[0] + MARGIN)}\x1b[J")
        self._widths = []

    def _back(self, columns: int) -> str:
        """To the beginning of the last picture. A terminal that became narrower has wrapped its lines."""
        if not self._widths:
            return "\r"
        taken = [max(1, -(-width // columns)) for width in self._widths]
        # Wider or as wide: the lines are where they were.
        up = (sum(taken) if columns < self._columns else len(taken)) - 1
        return f"\r\x1b[{up}A" if up else "\r"

    def _console(self, columns: int) -> Console:
        from rich.console import Console

        return Console(
            file=StringIO(),
            force_terminal=True,
            color_system="standard" if self._colour else None,
            width=columns,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )


def _rendered(console: Console, line: Text) -> str:
    with console.capture() as captured:
        console.print(line, end="", soft_wrap=True)
    return captured.get()

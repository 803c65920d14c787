"""The nesting of blocks while a manifest is laid out anew: where each level stood, and where it stands now."""

from __future__ import annotations

from dataclasses import dataclass

INDENT = 2


@dataclass(frozen=True, slots=True)
class Level:
    """One block collection: its column before and after. `bare`: a list that stood at its key's own column."""

    was: int
    now: int
    sequence: bool
    bare: bool = False


class Levels:
    """The open levels, outermost first, and those that were open when the last token was written."""

    def __init__(self) -> None:
        self._open: list[Level] = []
        self._before: tuple[Level, ...] = ()

    @property
    def was(self) -> int:
        return self._open[-1].was if self._open else 0

    @property
    def now(self) -> int:
        """The column of the keys or dashes of the innermost level."""
        return self._open[-1].now if self._open else 0

    @property
    def sequence(self) -> bool:
        return bool(self._open) and self._open[-1].sequence

    def value(self) -> int:
        """The column of what belongs to a key or dash of the innermost level and begins a line."""
        return self._open[-1].now + INDENT if self._open else 0

    def open(self, column: int, *, sequence: bool) -> None:
        self._open.append(Level(column, self.value(), sequence))

    def entry(self, column: int) -> None:
        """A dash: in a list that the scanner has opened, or else in one at its key's own column."""
        if not self.sequence:
            self._open.append(Level(column, self.value(), sequence=True, bare=True))

    def key(self) -> None:
        """A key ends a list that stands at its column."""
        if self._open and self._open[-1].bare:
            self._open.pop()

    def close(self) -> None:
        self.key()
        self._open.pop()

    def clear(self) -> None:
        self._open.clear()

    def remember(self) -> None:
        self._before = tuple(self._open)

    def comment(self, column: int, was: int, now: int) -> int:
        """Where a comment line goes that stood at `column`, before a token that goes from `was` to `now`.

        With the next token, when it opens a level; else with the innermost level, of those that are open or
        were, that began no further right than the comment.
        """
        if len(self._open) > len(self._before):
            return now
        best, column_now = -1, 0
        for level_was, level_now in [(was, now), *((level.was, level.now) for level in self._before)]:
            if best < level_was <= column:
                best, column_now = level_was, level_now
        return column_now

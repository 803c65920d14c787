"""The picture in its place, as a terminal emulator sees it: drawn over itself, below lines of any length."""

from __future__ import annotations

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from fleetctl.cli.views.screen import Screen


class Sized(Screen):
    """A screen of a size that the test sets."""

    def __init__(self, columns: int, rows: int) -> None:
        self.terminal = pyte.Screen(columns, rows)
        stream = pyte.Stream(self.terminal)
        super().__init__(io.StringIO(), stream.feed, colour=True)

    def size(self) -> tuple[int, int]:
        return self.terminal.columns - 1, self.terminal.lines - 1

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.terminal.display if line.strip()]


def texts(*lines: str) -> list[Text]:
    return [Text(line) for line in lines]


@pytest.mark.parametrize("length", [1, 19, 20, 21, 39, 40, 41, 60])
def test_a_long_line_above_the_picture_keeps_every_character(length: int) -> None:
    """Also one that fills the width exactly, where a terminal has not wrapped yet."""
    screen = Sized(20, 12)
    screen.draw([], texts("picture " + "p" * 11, "second  " + "s" * 11))
    line = "".join(chr(ord("a") + n % 26) for n in range(length))
    screen.draw(texts(line), texts("head", "tail"))
    wrapped = [line[n : n + 20] for n in range(0, length, 20)]
    assert screen.shown() == [*wrapped, "head", "tail"]


def test_a_picture_that_grows_and_shrinks_leaves_nothing_behind() -> None:
    screen = Sized(30, 10)
    for height in (1, 5, 2, 7, 0, 3):
        screen.draw(texts(f"now {height}"), texts(*(f"row {n} of {height}" for n in range(height))))
    assert screen.shown()[-3:] == [f"row {n} of 3" for n in range(3)]
    assert not any("of 7" in line or "of 5" in line for line in screen.shown())
    screen.clear()
    assert screen.shown()[-1] == "now 3"


@given(
    steps=st.lists(
        st.tuples(st.lists(st.text("abc ", min_size=1, max_size=50), max_size=2), st.integers(0, 4)),
        max_size=8,
    )
)
def test_there_is_always_exactly_the_last_picture_at_the_end(steps: list[tuple[list[str], int]]) -> None:
    screen = Sized(24, 16)
    for above, height in steps:
        screen.draw(texts(*above), texts(*(f"#{n}" for n in range(height))))
        marks = [line for line in screen.shown() if line.startswith("#")]
        assert marks == [f"#{n}" for n in range(height)]

"""Remote text cannot command the terminal, and colour stays where a terminal is."""

from __future__ import annotations

import pytest

from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, ünïcode ✓\ttabs\nlines", "plain, ünïcode ✓\ttabs\nlines"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a new title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("over\rwritten", "overwritten"),
        ("nul\0 bell\x07 back\x08", "nul bell back"),
        ("\x9b31mc1", "31mc1"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("lone \x1b escape", "lone  escape"),
    ],
)
def test_control_characters_never_reach_the_screen(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\n b\t\x1b[2Jc ") == "a b c"


def test_paint_colours_only_when_enabled() -> None:
    assert PLAIN("red", "x") == "x"
    assert Paint(enabled=True)("red", "x") == "\x1b[31mx\x1b[0m"

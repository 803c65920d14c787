"""What a node says on its way to the operator: whole where it is data, harmless where it is shown."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from itertools import pairwise
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cli.remote_output import Cleaner, ReaderGone, RemoteOutput
from fleetctl.cli.terminal import PLAIN, Terminal, clean

EVIL = st.sampled_from(
    ["\x1b[31m", "\x1b]0;t\x07", "\x1b]8;;x\x1b\\", "\x1b", "\x9b2J", "\x07", "\r", "\u202e", "é", "語"]
)
TEXT = st.lists(st.one_of(EVIL, st.text(max_size=8)), max_size=12).map("".join)


@given(text=TEXT, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_no_piece_ever_commands_the_terminal(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    places = sorted({min(c, len(data)) for c in cuts} | {0, len(data)})
    cleaner = Cleaner()
    shown = "".join(cleaner.feed(data[a:b]) for a, b in pairwise(places))
    shown += cleaner.feed(b"", last=True)
    assert clean(shown) == shown
    assert not any(c in shown for c in "\x1b\x07\x9b\u202e\r")


@given(
    words=st.lists(st.sampled_from(["plain ", "\x1b[1;31mred\x1b[0m", "語", "\n", "\t"]), max_size=20),
    cut=st.integers(1, 7),
)
def test_what_is_no_command_stays_however_it_is_cut(words: list[str], cut: int) -> None:
    data = "".join(words).encode()
    cleaner = Cleaner()
    shown = "".join(cleaner.feed(data[n : n + cut]) for n in range(0, len(data), cut)) + cleaner.feed(
        b"", last=True
    )
    assert shown == clean("".join(words))


@pytest.fixture
def pipes() -> Iterator[tuple[Terminal, int, int]]:
    """A terminal object over two pipes, and their other ends."""
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    out: TextIO = os.fdopen(out_write, "w")
    err: TextIO = os.fdopen(err_write, "w")
    try:
        yield Terminal(out, err, PLAIN, PLAIN, interactive=False), out_read, err_read
    finally:
        out.close()
        err.close()
        os.close(err_read)


def test_elsewhere_every_byte_passes(pipes: tuple[Terminal, int, int]) -> None:
    terminal, out, err = pipes
    hear = RemoteOutput(terminal, raw=False)
    hear(b"\x1b[31m\x00\xff", False)
    hear(b"\x07", True)
    assert hear.end() == 0
    assert (os.read(out, 100), os.read(err, 100)) == (b"\x1b[31m\x00\xff", b"\x07")
    os.close(out)


def test_past_the_bound_output_is_counted_and_not_passed_on(pipes: tuple[Terminal, int, int]) -> None:
    terminal, out, _ = pipes
    hear = RemoteOutput(terminal, raw=False, limit_b=5)
    for _ in range(3):
        hear(b"abc", False)
    assert hear.end() == 4
    assert os.read(out, 100) == b"abcab"
    os.close(out)


def test_a_reader_that_went_away_is_an_end(pipes: tuple[Terminal, int, int]) -> None:
    terminal, out, _ = pipes
    os.close(out)
    with pytest.raises(ReaderGone):
        RemoteOutput(terminal, raw=False)(b"x", False)


@pytest.mark.parametrize(("raw", "wanted"), [(False, b"red"), (True, b"\x1b[31mred")])
def test_on_a_terminal_only_raw_passes_what_commands_it(raw: bool, wanted: bytes) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as out:
        terminal = Terminal(out, out, PLAIN, PLAIN, interactive=True)
        hear = RemoteOutput(terminal, raw=raw)
        hear(b"\x1b[3", False)
        hear(b"1mred", False)
        hear.end()
        said = b""
        while len(said) < len(wanted):  # a terminal passes on what it has, when it has it
            said += os.read(master, 100)
        assert said == wanted
    os.close(master)

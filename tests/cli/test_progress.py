"""What is shown while something runs: what is waited for, since when, and never a byte that commands the terminal."""

from __future__ import annotations

import io
import os
import pty
import threading
from datetime import UTC, datetime, timedelta

import pytest

from fleetctl.cli.terminal import PLAIN, Terminal
from fleetctl.cli.views import progress
from fleetctl.cli.views.board import Board, Line
from fleetctl.cli.views.watching import Watching
from fleetctl.engine.events import Report


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at_s)

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, duration_s: float) -> None:
        self.at_s += duration_s

    def new_id(self) -> str:
        return "0" * 32


def terminal() -> tuple[Terminal, io.StringIO]:
    err = io.StringIO()
    return Terminal(io.StringIO(), err, PLAIN, PLAIN, interactive=False), err


def test_plain_lines_carry_the_time_and_the_node() -> None:
    spoken, err = terminal()
    with progress.shown(spoken, Hand(), live=False) as board:
        board.note("healthy after 1.2 s", "green", "web-0")
    assert err.getvalue() == "2026-01-01T00:00:00Z web-0: healthy after 1.2 s\n"


def test_silence_is_broken_by_what_is_waited_for_and_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.04)
    said = threading.Event()

    class Hearing(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting for" in text:
                said.set()
            return super().write(text)

    err = Hearing()
    spoken = Terminal(io.StringIO(), err, PLAIN, PLAIN, interactive=False)
    clock = Hand()
    with progress.shown(spoken, clock, live=False) as board:
        board.begin("k", "web-0", "its health")
        board.heard("k", "connection refused\x1b[2J")
        clock.at_s = 12.0
        assert said.wait(10)
    assert "waiting for web-0: its health, for 12s (connection refused)" in err.getvalue()


def lines_of(reports: list[Report]) -> tuple[list[str], Board]:
    lines: list[Line] = []
    board = Board(Hand(), lines.append)
    watching = Watching(board, several=False)
    for report in reports:
        watching.on_report("hello", report)
    return [str(x) for x in lines], board


def test_the_next_report_of_a_node_ends_what_was_waited_for() -> None:
    lines, board = lines_of(
        [
            Report("step", "web-0", "stop begins", since_s=0.0),
            Report("step", "web-0", "stopped"),
            Report("step", "web-1", "waiting for health", since_s=0.0),
            Report("answer", "web-1", "503 from /health"),
        ]
    )
    assert lines == ["web-0: stopped"]
    assert [(i.subject, i.detail) for i in board.items()] == [("web-1", "503 from /health")]


def test_failed_nodes_are_remembered_with_their_reason() -> None:
    board = Board(Hand(), lambda line: None)
    watching = Watching(board, several=True)
    watching.on_report("hello", Report("failed", "web-0", "start failed:\nno \x1b[31mport"))
    watching.on_report("hello", Report("failed", "web-0", "once more"))
    assert {key: r.text for key, r in watching.failures.items()} == {
        ("hello", "web-0"): "start failed:\nno \x1b[31mport"
    }


def test_the_live_view_draws_on_a_terminal_and_leaves_what_happened() -> None:
    spoken, err = terminal()
    with progress.shown(spoken, Hand(), live=True) as board:
        board.begin("k", "web-0", "stop begins")
        board.end("k")
        board.note("healthy", "green", "web-0")
    assert "00:00:00 web-0: healthy" in err.getvalue()


@pytest.mark.parametrize(
    ("environ", "live"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "CI": "false"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_picture_is_drawn_only_where_one_is_wanted(environ: dict[str, str], live: bool) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as err:
        assert progress.wanted(environ, Terminal(err, err, PLAIN, PLAIN, interactive=True)) is live
    os.close(master)
    assert not progress.wanted(
        environ, Terminal(io.StringIO(), io.StringIO(), PLAIN, PLAIN, interactive=True)
    )


def test_a_writer_that_is_stuck_holds_up_nobody_and_says_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lines past the backlog are counted; they are renderings, not events."""
    monkeypatch.setattr(progress, "BACKLOG_MAX", 10)
    stuck, released = threading.Event(), threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            stuck.set()
            released.wait(30)
            return super().write(text)

    err = Slow()
    spoken = Terminal(io.StringIO(), err, PLAIN, PLAIN, interactive=False)
    with progress.shown(spoken, Hand(), live=False) as board:
        board.note("first")
        assert stuck.wait(10)
        for n in range(25):
            board.note(f"line {n}")
        released.set()
    said = err.getvalue()
    assert "first" in said
    assert "line 9\n" in said
    assert "line 10\n" not in said
    assert "15 lines left out: the terminal did not take them in time" in said


def test_a_terminal_that_takes_nothing_at_the_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.05)
    released = threading.Event()

    class Stopped(io.StringIO):
        def write(self, text: str) -> int:
            released.wait(30)
            return super().write(text)

    err = Stopped()
    with progress.shown(
        Terminal(io.StringIO(), err, PLAIN, PLAIN, interactive=False), Hand(), live=False
    ) as board:
        board.note("nobody reads this in time")
    assert err.getvalue() == ""
    released.set()

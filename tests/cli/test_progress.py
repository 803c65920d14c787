"""What is shown while something runs: what is waited for, since when, and never a byte that commands the terminal."""

from __future__ import annotations

import io
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
    assert watching.failed == {("hello", "web-0"): "start failed: no port"}


def test_the_live_view_draws_on_a_terminal_and_leaves_what_happened() -> None:
    spoken, err = terminal()
    with progress.shown(spoken, Hand(), live=True) as board:
        board.begin("k", "web-0", "stop begins")
        board.end("k")
        board.note("healthy", "green", "web-0")
    assert "00:00:00 web-0: healthy" in err.getvalue()

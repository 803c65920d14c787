"""Puts what the engine reports on the board: what begins, what came of it, and what is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetctl.cli.terminal import one_line
from fleetctl.cli.views.board import Board

if TYPE_CHECKING:
    from fleetctl.engine.events import Report

_STYLES = {"healthy": "green", "failed": "red", "halt": "yellow bold", "wait": "yellow"}


class Watching:
    """The engine's observer for one command. `several`: fleets are named in front of their nodes."""

    def __init__(self, board: Board, *, several: bool) -> None:
        self._board = board
        self._several = several
        self.failed: dict[tuple[str, str], str] = {}
        """(fleet, node) of every node that failed, and why."""

    def on_report(self, fleet: str, report: Report) -> None:
        """Shows one report; see `fleetctl.engine.observer.Observer`."""
        subject = report.node or ""
        if self._several:
            subject = f"{fleet}/{subject}" if subject else fleet
        key = f"{fleet}/{report.node or report.kind}"
        text = one_line(report.text)
        if report.kind not in ("wait", "answer"):
            self._board.end(f"{fleet}/wait")
        if report.node is not None:
            self._board.end(f"{fleet}/step")  # nodes come after artifacts
        if report.kind == "failed" and report.node is not None:
            self.failed[fleet, report.node] = text
        if report.kind == "answer":
            # What is said of no node is said of the artifact under way.
            self._board.heard(key if report.node is not None else f"{fleet}/step", text)
        elif report.since_s is not None:
            # What a node begins is told by its end, or by the heartbeat if that takes long.
            self._board.begin(key, subject, text.removesuffix(" begins"), quiet=report.node is not None)
        else:
            self._board.end(key)
            if report.kind != "end":  # the command has the last word itself
                self._board.note(text, _STYLES.get(report.kind, ""), subject)

"""Passes on what the engine reports: to the board (what begins, what came of it, what is waited for), to the scene of
the live view, and to the events for machines. None of them makes the engine wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetctl.cli.terminal import one_line
from fleetctl.cli.views import events
from fleetctl.cli.views.board import Board

if TYPE_CHECKING:
    from fleetctl.cli.views.event_log import EventLog
    from fleetctl.cli.views.scene import Scene
    from fleetctl.engine.events import Report

_STYLES = {"healthy": "green", "failed": "red", "evidence": "red", "halt": "yellow bold", "wait": "yellow"}
# The command itself has the last word.
_SILENT = frozenset({"end", "finished", "availability"})


class Watching:
    """The engine's observer for one command. `several`: fleets are named in front of their nodes."""

    def __init__(
        self, board: Board, *, several: bool, scene: Scene | None = None, log: EventLog | None = None
    ) -> None:
        self._board = board
        self._several = several
        self._scene = scene
        self._log = log
        self.failures: dict[tuple[str, str], Report] = {}
        """(fleet, node) of every node that failed, and the first report of it."""
        self.evidence: dict[tuple[str, str], Report] = {}
        """What failed nodes have left."""

    def on_report(self, fleet: str, report: Report) -> None:
        """Shows one report; see `fleetctl.engine.observer.Observer`."""
        if self._log is not None:
            event = events.of_report(report)
            if event is not None:
                self._log.put(event, fleet)
        if self._scene is not None:
            self._scene.on_report(fleet, report)
        self._show(fleet, report)

    def _show(self, fleet: str, report: Report) -> None:
        subject = report.node or ""
        if self._several:
            subject = f"{fleet}/{subject}" if subject else fleet
        # What is said of no node but of a host is said of the artifact that is brought there.
        where = report.facts.get("host") if report.node is None else None
        key = f"{fleet}/{report.node or report.kind}" if where is None else f"{fleet}/stage/{where}"
        text = one_line(report.text)
        if report.kind not in ("wait", "answer", "availability", "evidence"):
            self._board.end(f"{fleet}/wait")
        if report.node is not None and report.kind == "failed":
            self.failures.setdefault((fleet, report.node), report)
        if report.node is not None and report.kind == "evidence":
            self.evidence.setdefault((fleet, report.node), report)
            self._board.note(text, _STYLES["evidence"], subject)
        elif report.kind in _SILENT:
            self._board.end(key)
        elif report.kind == "answer":
            self._board.heard(key, text)
        elif report.since_s is not None:
            # What a node begins is told by its end, or by the heartbeat if that takes long.
            self._board.begin(key, subject, text.removesuffix(" begins"), quiet=report.node is not None)
        elif where is not None and report.facts.get("step") == "stage" and report.kind == "step":
            self._board.end(key)  # an artifact that is there is nothing to speak of
        else:
            self._board.end(key)
            self._board.note(text, _STYLES.get(report.kind, ""), subject)

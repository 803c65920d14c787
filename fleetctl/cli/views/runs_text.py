"""Runs as the journal tells them: when, what, by whom, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetctl.cli.terminal import one_line
from fleetctl.cli.views import table
from fleetctl.ledger.replay import Run

FORMAT_VERSION = "1.0"
CUT_OFF = "cut off, or under way"


def render_runs(runs: Sequence[Run]) -> str:
    """One line a run, the newest last."""
    if not runs:
        return "No run yet."
    rows = [
        [r.started_at[:19] + "Z", r.run[:12], r.fleet, r.command, r.who, str(r.effects), ending(r)]
        for r in runs
    ]
    return "\n".join(table.render(("started", "run", "fleet", "command", "who", "effects", "ended"), rows))


def ending(run: Run) -> str:
    """How it ended, in a few words."""
    if run.result is None:
        return CUT_OFF
    summary = f": {one_line(run.summary)}" if run.summary else ""
    return f"{run.result} (exit {run.exit_code}){summary}"


def document(runs: Sequence[Run]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "format_version": FORMAT_VERSION,
        "runs": [
            {
                "run": r.run,
                "fleet": r.fleet,
                "plan_id": r.plan_id,
                "command": r.command,
                "who": r.who,
                "epoch": r.epoch,
                "started_at": r.started_at,
                "finished_at": r.finished_at,
                "result": r.result,
                "exit_code": r.exit_code,
                "summary": r.summary,
                "effects": r.effects,
                "unsettled": [o.operation_id for o in r.unsettled],
            }
            for r in runs
        ],
    }

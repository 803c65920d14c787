"""Who watches a run: the port that the command line's view implements, and the one that says nothing."""

from __future__ import annotations

from typing import Protocol

from fleetctl.engine.events import Report


class Observer(Protocol):
    """Is told what happens, from the deciding thread; must return at once and must not raise.

    `Report.kind` is one of: `run` (a run begins), `step` (an effect begins, ends, or is looked up),
    `healthy`, `failed`, `answer` (a probe says something new of a node that is waited for), `wait` (nothing moves until something outside changes), `halt`, `note`, `end`.
    `since_s` (monotonic) is there while something is waited for; the next report of that node ends it.
    """

    def on_report(self, fleet: str, report: Report) -> None: ...


class Silent:
    """Nobody watches."""

    def on_report(self, fleet: str, report: Report) -> None:
        del fleet, report

"""Who watches a run: the port that the command line's view implements, and the one that says nothing."""

from __future__ import annotations

from typing import Protocol

from fleetctl.engine.events import Report


class Observer(Protocol):
    """Is told what happens, from the deciding thread; must return at once and must not raise.

    `Report.kind` says what happened, and which `facts` are there:

        run           a run begins: run, command, resumed, done (names of nodes that were done before)
        step          a step begins, ends, or is looked up: step, host, state (begun, done, lost), attempt,
                      generation; for verify also probe and deadline_s
        answer        a probe says something new of a node that is waited for: state, passed, wanted
        healthy       took_s, answer
        failed        step, host, why; where a probe was asked also probe, answer, waited_s
        evidence      what a failed node has left: state, exit_code, detail, log
        availability  how many serve now: available, count, floor, reserve, under_way, wave, scopes
        wait          nothing moves until something outside changes
        halt          nothing new is begun; result
        note, end     words only
        finished      the run has ended, however: run, result, exit_code

    `since_s` (monotonic) is there while something is waited for; the next report of that node ends it. What `evidence`
    and answers hold is text from elsewhere.
    """

    def on_report(self, fleet: str, report: Report) -> None: ...


class Silent:
    """Nobody watches."""

    def on_report(self, fleet: str, report: Report) -> None:
        del fleet, report

"""What `doctor` finds out: one check at a time as a value, and all places at once, within bounds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from executors.clock import Clock
from manifests.errors import FleetctlError

# Certificates, tokens and the order of logs suffer from more; from as little as this people are misled.
SKEW_WARNED_S = 2.0
SKEW_MAX_S = 30.0
PLACE_DEADLINE_S = 60.0


class Weight(StrEnum):
    """How much a check's result weighs: a problem stops a rollout, a warning may."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was seen, and what to do about it."""

    name: str
    weight: Weight
    said: str
    fix: str | None = None


def ok(name: str, said: str) -> Check:
    return Check(name, Weight.OK, said)


def warning(name: str, said: str, fix: str | None = None) -> Check:
    return Check(name, Weight.WARNING, said, fix)


def problem(name: str, said: str, fix: str | None = None) -> Check:
    return Check(name, Weight.PROBLEM, said, fix)


def clock_check(theirs_s: float, asked_s: float, answered_s: float, resolution_s: float = 0.0) -> Check:
    """Whether a place's clock agrees with ours: seconds since 1970, theirs read somewhere between our two.

    `resolution_s` is how much later than its text their time may have been.
    """
    early, late = theirs_s - answered_s, theirs_s + resolution_s - asked_s
    skew_s = early if early > 0 else late if late < 0 else 0.0
    if skew_s == 0.0:
        return ok("clock", "agrees with this machine's")
    said = f"is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
    if abs(skew_s) <= SKEW_WARNED_S:
        return ok("clock", said)
    fix = "let both machines follow a time server (chrony, systemd-timesyncd)"
    return problem("clock", said, fix) if abs(skew_s) > SKEW_MAX_S else warning("clock", said, fix)


Examine = Callable[[], Sequence[Check]]
"""Looks at one place; may raise FleetctlError where it cannot be reached."""


def examine_all(
    places: Mapping[str, Examine], clock: Clock, parallel: int, deadline_s: float = PLACE_DEADLINE_S
) -> dict[str, tuple[Check, ...]]:
    """The checks of each place, in the order given. One that does not answer in time has a problem, and delays nobody."""
    answers: dict[str, tuple[Check, ...]] = {}
    waiting = deque(places.items())
    # Daemons: a place that hangs must not keep the command from ending.
    workers = [
        threading.Thread(target=_work, args=(waiting, answers, clock), name=f"examine-{n}", daemon=True)
        for n in range(min(max(1, parallel), len(places)))
    ]
    for worker in workers:
        worker.start()
    until = clock.monotonic() + deadline_s * -(-len(places) // max(1, parallel))
    for worker in workers:
        worker.join(max(0.0, until - clock.monotonic()))
    waiting.clear()
    late = (
        problem(
            "reach", f"no answer within {deadline_s:g} s", "look whether it hangs, and what stands between"
        ),
    )
    return {name: answers.get(name, late) for name in places}


def _work(waiting: deque[tuple[str, Examine]], answers: dict[str, tuple[Check, ...]], clock: Clock) -> None:
    while waiting:
        try:
            name, examine = waiting.popleft()
        except IndexError:
            return
        started_s = clock.monotonic()
        try:
            found = tuple(examine())
        except FleetctlError as e:
            answers[name] = (problem("reach", e.message, e.hint),)
        except OSError as e:
            answers[name] = (problem("reach", str(e)),)
        else:
            answers[name] = (ok("reach", f"answered in {clock.monotonic() - started_s:.1f} s"), *found)

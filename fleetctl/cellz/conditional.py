"""Decide what a conditional write came to when answers are lost, late or ambiguous. Pure.

412 is lost; 409 is "try again" and says nothing about who won (Q5); no answer is neither, so the object
is read back and compared. Once a write went unanswered it may still have landed, and from then on a 412
may be our own work: it is read back too, never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# Tries before the outcome is given up as unknown; with the waits below this is about five seconds.
ATTEMPTS_MAX = 8
_FIRST_WAIT_S = 0.02
_WAIT_S_MAX = 1.0


class Phase(Enum):
    """What is under way; DOUBTFUL is a write after one whose answer was lost."""

    WRITE = "write"
    DOUBTFUL = "doubtful"
    READ = "read"
    DONE = "done"


class Answer(Enum):
    """What came back from the store."""

    DONE = "done"
    REFUSED = "refused"
    GONE = "gone"
    CONFLICT = "conflict"
    UNANSWERED = "unanswered"
    OURS = "ours"
    THEIRS = "theirs"
    UNCHANGED = "unchanged"


class Effect(Enum):
    """What to do next; the last three end the write."""

    WRITE = "write"
    READ = "read"
    WON = "won"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Settling:
    """Where a write is; `attempt` counts calls to the store."""

    phase: Phase = Phase.WRITE
    attempt: int = 1
    doubt: bool = False


_MOVES: dict[tuple[Phase, Answer], tuple[Phase, Effect]] = {
    (Phase.WRITE, Answer.DONE): (Phase.DONE, Effect.WON),
    (Phase.WRITE, Answer.REFUSED): (Phase.DONE, Effect.LOST),
    (Phase.WRITE, Answer.GONE): (Phase.DONE, Effect.LOST),
    (Phase.WRITE, Answer.CONFLICT): (Phase.WRITE, Effect.WRITE),
    (Phase.WRITE, Answer.UNANSWERED): (Phase.READ, Effect.READ),
    (Phase.DOUBTFUL, Answer.DONE): (Phase.DONE, Effect.WON),
    (Phase.DOUBTFUL, Answer.REFUSED): (Phase.READ, Effect.READ),
    (Phase.DOUBTFUL, Answer.GONE): (Phase.READ, Effect.READ),
    (Phase.DOUBTFUL, Answer.CONFLICT): (Phase.DOUBTFUL, Effect.WRITE),
    (Phase.DOUBTFUL, Answer.UNANSWERED): (Phase.READ, Effect.READ),
    (Phase.READ, Answer.OURS): (Phase.DONE, Effect.WON),
    (Phase.READ, Answer.THEIRS): (Phase.DONE, Effect.LOST),
    (Phase.READ, Answer.GONE): (Phase.DONE, Effect.LOST),
    (Phase.READ, Answer.UNCHANGED): (Phase.DOUBTFUL, Effect.WRITE),
    (Phase.READ, Answer.UNANSWERED): (Phase.READ, Effect.READ),
}


def on_answer(state: Settling, answer: Answer) -> tuple[Settling, Effect]:
    """Return the next state and effect; an answer that cannot come in this phase is a KeyError.

    After ATTEMPTS_MAX calls the effect is UNKNOWN, whatever is still open.
    """
    phase, effect = _MOVES[state.phase, answer]
    doubt = state.doubt or answer is Answer.UNANSWERED
    if phase is not Phase.DONE and state.attempt >= ATTEMPTS_MAX:
        return Settling(Phase.DONE, state.attempt, doubt), Effect.UNKNOWN
    return Settling(phase, state.attempt + 1, doubt), effect


def wait_s(attempt: int) -> float:
    """Return how long to wait before call number `attempt`, in seconds; doubling, bounded."""
    return float(min(_WAIT_S_MAX, _FIRST_WAIT_S * 2 ** max(0, attempt - 2)))

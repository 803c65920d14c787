"""What a conditional write came to, when answers are lost, late or ambiguous. Pure.

A refusal (412) is final only while every earlier try was answered: after a lost answer it may be our own
first try that stands in the way, and then only reading back tells. A conflict (409) says that the write
was not done and nothing about who won, so it is tried again. 404 for a write that names a token says that
the object is gone: the caller looks at everything anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# With the waits below a write is given up after about six seconds of refusals. Silence takes a timeout a call:
# then the lease may pass to another meanwhile, and the fence decides which of the two writes counts.
CALLS_MAX = 9
_WAIT_FIRST_S = 0.03
_WAIT_MAX_S = 1.5


class Answer(StrEnum):
    """What a call to the store came to. The last three are answers to a read that looks for our write."""

    DONE = "done"
    REFUSED = "refused"
    GONE = "gone"
    CONFLICT = "conflict"
    LOST = "lost"
    OURS = "ours"
    THEIRS = "theirs"
    AS_BEFORE = "as before"


class Next(StrEnum):
    """What to do now; the last three end it."""

    WRITE = "write"
    READ = "read"
    WON = "won"
    BEATEN = "beaten"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Settling:
    """A write on its way: which call is under way, the how-manieth, and whether an earlier one went unanswered."""

    next: Next = Next.WRITE
    call: int = 1
    doubt: bool = False


# (what was called, whether an answer was lost before, what it answered) -> what to do
TABLE: dict[tuple[Next, bool, Answer], Next] = {
    (Next.WRITE, False, Answer.DONE): Next.WON,
    (Next.WRITE, False, Answer.REFUSED): Next.BEATEN,
    (Next.WRITE, False, Answer.GONE): Next.BEATEN,
    (Next.WRITE, False, Answer.CONFLICT): Next.WRITE,
    (Next.WRITE, False, Answer.LOST): Next.READ,
    (Next.WRITE, True, Answer.DONE): Next.WON,
    (Next.WRITE, True, Answer.REFUSED): Next.READ,
    (Next.WRITE, True, Answer.GONE): Next.READ,
    (Next.WRITE, True, Answer.CONFLICT): Next.WRITE,
    (Next.WRITE, True, Answer.LOST): Next.READ,
    (Next.READ, True, Answer.OURS): Next.WON,
    (Next.READ, True, Answer.THEIRS): Next.BEATEN,
    (Next.READ, True, Answer.GONE): Next.BEATEN,
    (Next.READ, True, Answer.AS_BEFORE): Next.WRITE,
    (Next.READ, True, Answer.LOST): Next.READ,
}


def on_answer(state: Settling, answer: Answer) -> Settling:
    """The state after an answer; UNKNOWN when the calls are used up. An answer that cannot come is a KeyError."""
    doubt = state.doubt or answer is Answer.LOST
    step = TABLE[state.next, state.doubt, answer]
    if step in (Next.WRITE, Next.READ) and state.call >= CALLS_MAX:
        step = Next.UNKNOWN
    return Settling(step, state.call + 1, doubt)


def wait_s(call: int) -> float:
    """How long to wait before the numbered call: nothing before the first, then doubling, bounded."""
    return 0.0 if call <= 1 else min(_WAIT_MAX_S, _WAIT_FIRST_S * 2.0 ** (call - 2))

"""The life of one cell on one node, as a table: an illegal move is a missing key. Pure.

ABSENT -> ACQUIRING -> RESTORING -> ACTIVE -> SAVING -> RELEASING -> ABSENT
a lost lease drops the cell without releasing; a damaged database quarantines this cell alone
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where the cell is; `doing` states are passed through while an effect runs."""

    ABSENT = "absent"
    ACQUIRING = "acquiring"
    RESTORING = "restoring"
    ACTIVE = "active"
    SAVING = "saving"
    RELEASING = "releasing"
    DROPPING = "dropping"
    POISONED = "poisoned"
    QUARANTINED = "quarantined"
    CLEARING = "clearing"


class Event(Enum):
    """What happened."""

    WANTED = "wanted"
    GRANTED = "granted"
    REFUSED = "refused"
    RESTORED = "restored"
    FAILED = "failed"
    LOST = "lost"
    DAMAGED = "damaged"
    EVICT = "evict"
    SAVED = "saved"
    DOWN = "down"


class Effect(Enum):
    """What the shell does next; REST ends the move and answers whoever waits."""

    ACQUIRE = "acquire the lease"
    RESTORE = "restore the database"
    SERVE = "serve"
    SAVE = "save a snapshot"
    RELEASE = "close, and release the lease"
    DROP = "close, and leave the lease to its new holder"
    SET_ASIDE = "set the damaged file aside"
    REST = "rest"


MOVES: dict[tuple[State, Event], tuple[State, Effect]] = {
    (State.ABSENT, Event.WANTED): (State.ACQUIRING, Effect.ACQUIRE),
    (State.ABSENT, Event.EVICT): (State.ABSENT, Effect.REST),
    (State.ACQUIRING, Event.GRANTED): (State.RESTORING, Effect.RESTORE),
    (State.ACQUIRING, Event.REFUSED): (State.ABSENT, Effect.REST),
    (State.RESTORING, Event.RESTORED): (State.ACTIVE, Effect.SERVE),
    (State.RESTORING, Event.FAILED): (State.RELEASING, Effect.RELEASE),
    (State.RESTORING, Event.DAMAGED): (State.POISONED, Effect.RELEASE),
    (State.RESTORING, Event.LOST): (State.DROPPING, Effect.DROP),
    (State.ACTIVE, Event.EVICT): (State.SAVING, Effect.SAVE),
    (State.ACTIVE, Event.LOST): (State.DROPPING, Effect.DROP),
    (State.ACTIVE, Event.DAMAGED): (State.POISONED, Effect.RELEASE),
    (State.SAVING, Event.SAVED): (State.RELEASING, Effect.RELEASE),
    # The original drops a cell whose backup failed; ours keeps it and says so.
    (State.SAVING, Event.FAILED): (State.ACTIVE, Effect.SERVE),
    (State.SAVING, Event.LOST): (State.DROPPING, Effect.DROP),
    (State.SAVING, Event.DAMAGED): (State.POISONED, Effect.RELEASE),
    (State.RELEASING, Event.DOWN): (State.ABSENT, Effect.REST),
    (State.DROPPING, Event.DOWN): (State.ABSENT, Effect.REST),
    (State.POISONED, Event.DOWN): (State.QUARANTINED, Effect.REST),
    (State.QUARANTINED, Event.WANTED): (State.QUARANTINED, Effect.REST),
    (State.QUARANTINED, Event.EVICT): (State.CLEARING, Effect.SET_ASIDE),
    (State.CLEARING, Event.DOWN): (State.ABSENT, Effect.REST),
}

RESTING = frozenset({State.ABSENT, State.ACTIVE, State.QUARANTINED})


def on_event(state: State, event: Event) -> tuple[State, Effect]:
    """Return the next state and what to do; raises KeyError for a move that is not in the table."""
    return MOVES[state, event]

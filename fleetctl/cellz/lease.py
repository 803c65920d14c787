"""Decide who may write a cell. Pure: events in, a state and effects out; time is monotonic and an argument.

A lease is judged by observation: another node's lease is dead when its token has not changed for its TTL on
our own monotonic clock (Q8). `expires_at` is written for the original's nodes and read by no decision here.
The epoch grows with every taking, and each conditional write to the shared log proves it.

    UNHELD   --want-->      read; nobody, released, our own id: take; another: watch
    WATCHED  --want-->      unchanged for its TTL: take; else denied until then
    TAKING   --settled-->   HELD | read again | trouble
    HELD     --tick-->      renew at a third of the TTL; past the TTL: fenced
    HELD     --release-->   a released lease stays, with its epoch
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

# A lease is renewed when this part of its TTL has passed, so two renewals may fail before it ends.
RENEW_AT = 1 / 3
# How often a request may cause another look at a lease that another node holds.
LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Lease:
    """What stands in the store: the original's two fields, and ours beside them.

    `epoch` 0 and `ttl_s` 0 mean an original node wrote it. `nonce` differs in every write, so that a token
    never comes back with an old meaning (Q7).
    """

    holder: str
    epoch: int = 0
    ttl_s: float = 0.0
    address: str = ""
    nonce: str = ""
    released: bool = False


class Phase(Enum):
    """Where this node stands towards one cell."""

    UNHELD = "unheld"
    READING = "reading"
    TAKING = "taking"
    HELD = "held"
    CHECKING = "checking"
    RENEWING = "renewing"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True)
class Standing:
    """This node's state for one cell; times are monotonic seconds.

    `token` is what the next write must match; "" with phase HELD means it is unsure and must be read.
    `until` ends our own right; `seen_token` and `seen_since` are the watch over another's lease.
    """

    phase: Phase = Phase.UNHELD
    epoch: int = 0
    token: str = ""
    until: float = 0.0
    renew_at: float = 0.0
    asked_at: float = 0.0
    seen_token: str = ""
    seen_since: float = 0.0
    look_at: float = 0.0
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Want:
    """A request needs the cell."""

    now: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The lease was read; None when there is none."""

    lease: Lease | None
    token: str
    now: float


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The lease could not be read."""

    now: float


@dataclass(frozen=True, slots=True)
class Won:
    """Our write stands."""

    token: str
    now: float


@dataclass(frozen=True, slots=True)
class Lost:
    """Another write came first."""

    now: float


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody knows whether our write stands."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""

    now: float


@dataclass(frozen=True, slots=True)
class Release:
    """The cell was put down in order."""

    now: float


@dataclass(frozen=True, slots=True)
class Learn:
    """The cell's snapshot or log showed an epoch; ours must be above it."""

    epoch: int
    now: float


Event = Want | Seen | Unreadable | Won | Lost | Unknown | Tick | Release | Learn


@dataclass(frozen=True, slots=True)
class Read:
    """Read the lease and come back with Seen or Unreadable."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write the lease if the token still matches ("" means: if there is none)."""

    epoch: int
    match: str
    released: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """The cell may be used under this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Denied:
    """Another node holds the cell."""

    owner: str
    retry_after_s: float


@dataclass(frozen=True, slots=True)
class Trouble:
    """The store cannot say now."""


@dataclass(frozen=True, slots=True)
class Fence:
    """We hold the cell no longer: stop at once."""


@dataclass(frozen=True, slots=True)
class Released:
    """The lease is given back, or was not ours any more."""


Effect = Read | Write | Granted | Denied | Trouble | Fence | Released


@dataclass(frozen=True, slots=True)
class Terms:
    """Who we are: the stable node id, and the TTL we write, in seconds."""

    holder: str
    ttl_s: float


def on_event(state: Standing, event: Event, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    """Return the new standing and what to do; an event that cannot come in this phase is a KeyError."""
    if isinstance(event, Learn):
        return replace(state, epoch=max(state.epoch, event.epoch)), ()
    if isinstance(event, Tick):
        return _tick(state, event)
    return _MOVES[state.phase, type(event)](state, event, terms)


def valid(state: Standing, now: float) -> bool:
    """Return whether our right to write still stands at monotonic time `now`."""
    return state.until > now and state.phase in (Phase.HELD, Phase.CHECKING, Phase.RENEWING)


def _want(state: Standing, event: Want, _: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    if state.seen_token and event.now < state.look_at:
        return state, (Denied(state.owner, state.look_at - event.now),)
    return replace(state, phase=Phase.READING), (Read(),)


def _want_anew(state: Standing, *_: object) -> tuple[Standing, tuple[Effect, ...]]:
    # The cell was dropped in doubt: what stands in its log under this epoch is unknown, so take a higher one.
    return Standing(Phase.READING, state.epoch), (Read(),)


def _seen(state: Standing, event: Seen, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    lease = event.lease
    if lease is None:
        return _take(state, state.epoch + 1, "", event.now)
    epoch = max(state.epoch, lease.epoch) + 1
    if lease.released or lease.holder == terms.holder:
        return _take(state, epoch, event.token, event.now)
    ttl = lease.ttl_s or terms.ttl_s
    if state.seen_token != event.token:
        state = replace(state, seen_token=event.token, seen_since=event.now, owner=lease.address)
    left = state.seen_since + ttl - event.now
    if left <= 0:
        return _take(state, epoch, event.token, event.now)
    look_at = event.now + min(LOOK_EVERY_S, left)
    return replace(state, phase=Phase.UNHELD, look_at=look_at), (Denied(lease.address, left),)


def _take(state: Standing, epoch: int, match: str, now: float) -> tuple[Standing, tuple[Effect, ...]]:
    taking = replace(state, phase=Phase.TAKING, epoch=epoch, asked_at=now)
    return taking, (Write(epoch, match),)


def _taken(state: Standing, event: Won, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    # Our right counts from before the write was sent; a watcher counts from after it landed.
    until = state.asked_at + terms.ttl_s
    if event.now >= until:
        # The answer took longer than the right lasts: write again before using it.
        return replace(state, asked_at=event.now), (Write(state.epoch, event.token),)
    renew_at = state.asked_at + terms.ttl_s * RENEW_AT
    return Standing(Phase.HELD, state.epoch, event.token, until=until, renew_at=renew_at), (
        Granted(state.epoch),
    )


def _outrun(state: Standing, *_: object) -> tuple[Standing, tuple[Effect, ...]]:
    # Whoever came first is to be read, not guessed; the watch over the old token is over.
    return replace(state, phase=Phase.READING, epoch=state.epoch - 1, seen_token=""), (Read(),)


def _unsure(state: Standing, *_: object) -> tuple[Standing, tuple[Effect, ...]]:
    return replace(state, phase=Phase.UNHELD), (Trouble(),)


def _tick(state: Standing, event: Tick) -> tuple[Standing, tuple[Effect, ...]]:
    if state.phase not in (Phase.HELD, Phase.CHECKING, Phase.RENEWING):
        return state, ()
    if event.now >= state.until:
        return Standing(epoch=state.epoch), (Fence(),)
    if state.phase is not Phase.HELD or event.now < state.renew_at:
        return state, ()
    if not state.token:
        return replace(state, phase=Phase.CHECKING), (Read(),)
    return replace(state, phase=Phase.RENEWING, asked_at=event.now), (Write(state.epoch, state.token),)


def _checked(state: Standing, event: Seen, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    lease = event.lease
    if lease is None or lease.holder != terms.holder or lease.epoch != state.epoch or lease.released:
        return Standing(epoch=state.epoch), (Fence(),)
    return replace(state, phase=Phase.RENEWING, asked_at=event.now), (Write(state.epoch, event.token),)


def _unchecked(state: Standing, event: Unreadable, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    return replace(state, phase=Phase.HELD, renew_at=event.now + terms.ttl_s * RENEW_AT / 4), ()


def _renewed(state: Standing, event: Won, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    if event.now >= state.until:
        # It came too late: between our end and this answer another may have judged us dead.
        return Standing(epoch=state.epoch), (Fence(),)
    until = state.asked_at + terms.ttl_s
    renew_at = state.asked_at + terms.ttl_s * RENEW_AT
    return replace(state, phase=Phase.HELD, token=event.token, until=until, renew_at=renew_at), ()


def _fenced(state: Standing, *_: object) -> tuple[Standing, tuple[Effect, ...]]:
    return Standing(epoch=state.epoch), (Fence(),)


def _doubtful(state: Standing, event: Unknown, terms: Terms) -> tuple[Standing, tuple[Effect, ...]]:
    return replace(state, phase=Phase.HELD, token="", renew_at=event.now + terms.ttl_s * RENEW_AT / 4), ()


def _release(state: Standing, *_: object) -> tuple[Standing, tuple[Effect, ...]]:
    if state.phase is Phase.HELD and state.token:
        return replace(state, phase=Phase.RELEASING), (Write(state.epoch, state.token, released=True),)
    return Standing(epoch=state.epoch), (Released(),)


def _released(state: Standing, *_: object) -> tuple[Standing, tuple[Effect, ...]]:
    return Standing(epoch=state.epoch), (Released(),)


_MOVES: dict[tuple[Phase, type], Callable[[Standing, Any, Terms], tuple[Standing, tuple[Effect, ...]]]] = {
    (Phase.UNHELD, Want): _want,
    (Phase.UNHELD, Release): _release,
    (Phase.READING, Seen): _seen,
    (Phase.READING, Unreadable): _unsure,
    (Phase.TAKING, Won): _taken,
    (Phase.TAKING, Lost): _outrun,
    (Phase.TAKING, Unknown): _unsure,
    (Phase.HELD, Want): _want_anew,
    (Phase.HELD, Release): _release,
    (Phase.CHECKING, Seen): _checked,
    (Phase.CHECKING, Unreadable): _unchecked,
    (Phase.CHECKING, Release): _release,
    (Phase.RENEWING, Won): _renewed,
    (Phase.RENEWING, Lost): _fenced,
    (Phase.RENEWING, Unknown): _doubtful,
    (Phase.RELEASING, Won): _released,
    (Phase.RELEASING, Lost): _released,
    (Phase.RELEASING, Unknown): _released,
}

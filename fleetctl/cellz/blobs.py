"""The blob store port: whole objects, conditional writes, and answers that say when nobody knows.

Every implementation passes one conformance suite (tests/cellz/test_blobs.py). Calls block; the node makes
them on its pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from fleetctl.cellz.conditional import Answer, Effect, Settling, on_answer, wait_s
from fleetctl.cellz.errors import StoreTrouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


class Blob(NamedTuple):
    """An object and its token: opaque, changed by every write, good for `replace` only (Q7)."""

    data: bytes
    token: str


class Refused(Exception):
    """412: the condition does not hold."""


class Gone(Exception):
    """404 for a conditional write: there is nothing to match."""


class Busy(Exception):
    """409 or "slow down": the write was not done, and says nothing about who else wrote (Q5)."""


class Unanswered(Exception):
    """No answer, or a 5xx: the write may or may not have been done."""


class Blobs(Protocol):
    """Where snapshots, leases and the shared log live."""

    def get(self, key: str) -> Blob | None:
        """Return the object, or None; raises Unanswered."""

    def put(self, key: str, data: bytes) -> str:
        """Write without condition and return the token; raises Unanswered or Busy."""

    def create(self, key: str, data: bytes) -> str:
        """Write if there is none; raises Refused, Busy or Unanswered."""

    def replace(self, key: str, data: bytes, token: str) -> str:
        """Write if the object still has this token; raises Refused, Gone, Busy or Unanswered."""

    def delete(self, key: str) -> None:
        """Remove the object if it is there; raises Unanswered."""

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store; raises Gone, Busy or Unanswered."""

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with `prefix`, in order; raises Unanswered."""


class Outcome(NamedTuple):
    """How a conditional write ended: `effect` is WON, LOST or UNKNOWN; `token` when won."""

    effect: Effect
    token: str = ""


def write_if(blobs: Blobs, key: str, data: bytes, token: str, sleep: Callable[[float], None]) -> Outcome:
    """Write `data` if `key` has `token` ("" means: is absent), and find out how it ended.

    `data` must differ from everything ever written there (a nonce), since a lost answer is settled by
    reading back and comparing.
    """
    state = Settling()
    effect = Effect.WRITE
    won = ""
    while effect in (Effect.WRITE, Effect.READ):
        if state.attempt > 1:
            sleep(wait_s(state.attempt))
        if effect is Effect.WRITE:
            answer, won = _write(blobs, key, data, token)
        else:
            answer, won = _read_back(blobs, key, data, token)
        state, effect = on_answer(state, answer)
    return Outcome(effect, won if effect is Effect.WON else "")


def _write(blobs: Blobs, key: str, data: bytes, token: str) -> tuple[Answer, str]:
    try:
        return Answer.DONE, blobs.replace(key, data, token) if token else blobs.create(key, data)
    except Refused:
        return Answer.REFUSED, ""
    except Gone:
        return Answer.GONE, ""
    except Busy:
        return Answer.CONFLICT, ""
    except Unanswered:
        return Answer.UNANSWERED, ""


def _read_back(blobs: Blobs, key: str, data: bytes, token: str) -> tuple[Answer, str]:
    try:
        blob = blobs.get(key)
    except Unanswered:
        return Answer.UNANSWERED, ""
    if blob is None:
        return (Answer.GONE if token else Answer.UNCHANGED), ""
    if blob.data == data:
        return Answer.OURS, blob.token
    return (Answer.UNCHANGED if token and blob.token == token else Answer.THEIRS), ""


# Reads and plain writes are tried this often before the caller hears of it.
_TRIES = 4


def retried(call: Callable[[], T], sleep: Callable[[float], None], what: str) -> T:
    """Return what an idempotent call gives, trying again after Busy or Unanswered.

    Raises StoreTrouble when it stays so.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            return call()
        except (Busy, Unanswered) as error:
            if attempt == _TRIES:
                raise StoreTrouble(f"the blob store did not answer: {what}") from error
            sleep(wait_s(attempt + 1) * 4)
    raise AssertionError

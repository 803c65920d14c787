"""Whether a store honours the conditions that two writers rely on: tried out before anything is entrusted to it."""

from __future__ import annotations

from executors.clock import Clock
from fleetctl.stores.s3_bucket import Bucket, conditions_ignored, unanswered
from fleetctl.stores.s3_objects import framed
from fleetctl.stores.s3_settle import Answer, wait_s

# A store that is busy all the while is no store that can be judged.
_TRIES = 6


def probe(bucket: Bucket, clock: Clock) -> None:
    """Creates, overwrites and removes one object under conditions that hold and conditions that do not.

    Raises StateError with code `state.conditions_ignored` for a store that does not honour them, and what
    using the store raises.
    """
    name = f"probe/{clock.new_id()}"
    bodies = [framed({"v": 1, "kind": "probe", "nonce": clock.new_id()}) for _ in range(4)]
    created = bucket.write_if(name, bodies[0], None)
    if created is None:
        raise conditions_ignored(bucket.place, "a name that was never used is said to be taken")
    try:
        _refuses(bucket, clock, name, bodies[1], None, "it overwrites an object that If-None-Match protects")
        _holds(bucket, name, bodies[0])
        if bucket.write_if(name, bodies[2], created) is None:
            raise conditions_ignored(bucket.place, "it refuses an If-Match that holds")
        _holds(bucket, name, bodies[2])
        _refuses(
            bucket, clock, name, bodies[3], created, "it overwrites an object although If-Match is stale"
        )
        _holds(bucket, name, bodies[2])
    finally:
        bucket.delete(name)


def _refuses(bucket: Bucket, clock: Clock, name: str, data: bytes, token: str | None, otherwise: str) -> None:
    for attempt in range(1, _TRIES + 1):
        clock.sleep(wait_s(attempt))
        answer = bucket.try_put(name, data, token)
        if answer is Answer.REFUSED:
            return
        if answer in (Answer.DONE, Answer.GONE):
            raise conditions_ignored(bucket.place, otherwise)
    raise unanswered(bucket.place, f"writing {name}")


def _holds(bucket: Bucket, name: str, data: bytes) -> None:
    found = bucket.get(name)
    if found is None or found.data != data:
        raise conditions_ignored(bucket.place, "it does not read what was written last")

"""Words to a rollout: pause, resume, promote, abort. They are journal entries, read between steps.

A live run hears them; one that waits for a person has ended its process (exit 8), and the verb that it waits
for takes it up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from fleetctl.engine.errors import NoOpenRun
from fleetctl.engine.events import Effect, Report
from fleetctl.engine.progress import canary_done, halt
from fleetctl.engine.rollout import Halt, Rollout
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.ports import Head, Holder, JournalConflict, LeaseHeld, Store
from fleetctl.ledger.replay import Run, replay
from manifests.errors import ExitCode

APPENDS_MAX = 50
"""A live run writes all the time: how often to try for a place between two of its entries."""


WORD_TTL_S = 30.0
"""A word is written in an instant; whoever dies in it elsewhere is replaced after this."""


class Verb(StrEnum):
    """What can be said to a run."""

    PAUSE = "pause"
    RESUME = "resume"
    PROMOTE = "promote"
    ABORT = "abort"


def on_controlled(rollout: Rollout, verb: str, who: str, out: list[Effect]) -> None:
    """The word was heard. Verbs of later releases are passed over."""
    by = f" by {who}" if who else ""
    if verb == Verb.PAUSE:
        rollout.paused = rollout.paused or f"paused{by}; `fleetctl resume` goes on"
        out.append(Report("halt", None, f"paused{by}: nodes under way are finished"))
    elif verb == Verb.RESUME:
        _go_on(rollout, f"resumed{by}", out, promoted=rollout.promoted)
    elif verb == Verb.PROMOTE:
        _go_on(rollout, f"promoted{by}", out, promoted=True)
    elif verb == Verb.ABORT:
        rollout.paused = ""
        halt(rollout, Halt("aborted", ExitCode.FAILED, f"aborted{by}"), out)


def _go_on(rollout: Rollout, text: str, out: list[Effect], *, promoted: bool) -> None:
    """Only a promotion ends the wait for one."""
    waits = rollout.waits_for_promotion and not promoted
    first = promoted and not rollout.promoted and rollout.waits_for_promotion
    rollout.promoted = promoted
    if waits:
        return
    rollout.paused, rollout.dirty = "", True
    rollout.progress_s = rollout.now_s
    out.append(Report("note", None, text))
    if first:
        rollout.waits_for_promotion = False
        canary_done(rollout, out)


def say(store: Store, fleet: str, verb: Verb, holder: Holder, at: str) -> Run:
    """Writes a word of `holder` for the run that is open, at this time (RFC 3339); gives that run.

    Raises NoOpenRun where there is none.
    """
    who = holder.who
    for _ in range(APPENDS_MAX):
        replayed = replay(fleet, store.read(fleet))
        run = replayed.open_run
        if run is None:
            raise NoOpenRun(
                f"fleet {fleet} has no run to {verb.value}",
                hint="`fleetctl runs` lists what was run",
            )
        head: Head = store.head(fleet)
        if head.sequence != replayed.recorded.serial:
            continue
        try:
            with writing(store, fleet, holder) as epoch:
                context = Context(fleet, replayed.recorded.lineage or "", run.run, epoch)
                sealed = seal([entries.control(verb.value, who)], context, head, at)
                store.append(fleet, head.sequence, sealed, epoch)
        except JournalConflict:
            continue
        return run
    raise JournalConflict(f"the journal of fleet {fleet} is too busy", hint="run the command again")


@contextmanager
def writing(store: Store, fleet: str, holder: Holder) -> Iterator[int]:
    """An epoch to write a word under: that of the run which is under way and hears it, or one of our own.

    Raises JournalConflict when the lease changes hands at this moment.
    """
    try:
        lease = store.acquire(fleet, holder, WORD_TTL_S)
    except LeaseHeld as e:
        held = store.current(fleet)
        if held is None:
            raise JournalConflict(f"the lease of fleet {fleet} changes hands") from e
        yield held.epoch
        return
    try:
        yield lease.epoch
    finally:
        store.release(lease)

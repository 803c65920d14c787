"""Copies a state into another store, entry by entry: what `state migrate`, `backup` and `restore` have in common.

Entries keep their bytes, so the chain stays the same one, and the target's is proven by reading it back. The
key of secret digests comes along: with another key, every secret would look changed. A copy that was cut off
goes on where it stopped; a target that holds anything else than the beginning of the source is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from executors.clock import Clock, rfc3339
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, Kind, encode, sha256_hex
from fleetctl.ledger.ports import Head, Holder, Lease, StateError, Store
from fleetctl.stores.judgement import MOVED_RUN

# One append is one transaction or one object; this many entries stay well below a request's limit.
BATCH_ENTRIES = 500
LEASE_TTL_S = 30.0
_FOR_EVER_S = 1e12
# A state restored from a backup may be behind what its hosts have seen; they refuse an older epoch. No fleet
# is held this often between a backup and its use.
RESTORE_EPOCHS = 100_000


@dataclass(frozen=True, slots=True)
class Copied:
    """What was brought over for one fleet: `entries` are new in the target."""

    fleet: str
    entries: int
    head: Head
    documents: int


class OtherState(StateError):
    """The target is not empty, and not the beginning of what is to be copied into it."""

    code = "state.other"


@contextmanager
def holding(
    store: Store, fleets: Sequence[str], holder: Holder, *, again: bool = False
) -> Iterator[dict[str, Lease]]:
    """Holds these fleets; with `again`, also those that were left behind by a migration. Raises LeaseHeld."""
    with ExitStack() as stack:
        held = {}
        for fleet in fleets:
            if again:
                take_back(store, fleet)
            held[fleet] = store.acquire(fleet, holder, LEASE_TTL_S)
            stack.callback(store.release, held[fleet])
        yield held


def copy(source: Store, target: Store, holder: Holder) -> list[Copied]:
    """Brings every fleet of `source` into `target`, with documents and the key; the caller holds the source.

    Raises OtherState before anything is written, LeaseHeld and StateError.
    """
    key = source.secrets_key()
    fleets = list(source.fleets())
    if key is None and not fleets:
        raise StateError(f"there is no state in {source.describe()}", code="state.missing")
    for fleet in fleets:
        _ensure_beginning(source, target, fleet)
    present = target.secrets_key()
    if present is not None and present != key:
        raise _other(target, "its key of secret digests is another one")
    target.initialise(key)
    with holding(target, fleets, holder, again=True) as leases:
        return [_copy_fleet(source, target, fleet, leases[fleet].epoch) for fleet in fleets]


def leave(store: Store, copied: Sequence[Copied], holder: Holder, to: str) -> None:
    """Closes a state that was copied to `to`: it can be read, and no run can begin in it any more.

    Raises StateError when somebody wrote to it after it was copied; then it stays open.
    """
    moved = replace(holder, run=MOVED_RUN, command=f"the state was moved to {to}", boot_id=MOVED_RUN, pid=0)
    taken = [store.acquire(c.fleet, moved, _FOR_EVER_S) for c in copied]
    late = next((c.fleet for c in copied if store.head(c.fleet) != c.head), None)
    if late is not None:
        for lease in taken:
            store.release(lease)
        raise StateError(
            f"fleet {late} was changed while its state was copied", hint="run the same command again"
        )


def take_back(store: Store, fleet: str) -> None:
    """Ends the hold that `leave` left, so that a state can be moved back to where it was."""
    lease = store.current(fleet)
    if lease is not None and moved_to(lease) is not None:
        store.release(lease)


def moved_to(lease: Lease | None) -> str | None:
    """Where the state went that this lease closes; None for a lease of a run."""
    if lease is None or lease.holder.run != MOVED_RUN or lease.holder.boot_id != MOVED_RUN:
        return None
    return lease.holder.command.removeprefix("the state was moved to ")


def not_moved(store: Store, to: str) -> list[str]:
    """The fleets of a state that no migration to `to` has closed yet. Raises StateError where all are closed."""
    gone = {fleet: moved_to(store.current(fleet)) for fleet in store.fleets()}
    elsewhere = next((place for place in gone.values() if place not in (None, to)), None)
    still_here = [fleet for fleet, place in gone.items() if place is None]
    if elsewhere is not None or (gone and not still_here):
        raise StateError(
            f"the state {store.describe()} was moved to {elsewhere or to} already",
            hint="name that place instead; nothing was changed",
            code="state.moved",
        )
    return still_here


def mark_restored(store: Store, copied: Sequence[Copied], holder: Holder, clock: Clock, source: str) -> None:
    """Records the restore in each journal, with an epoch above all that the fleet's hosts can have seen."""
    with holding(store, [c.fleet for c in copied], holder) as leases:
        for c in copied:
            if c.head.lineage is None:
                continue
            epoch = leases[c.fleet].epoch + RESTORE_EPOCHS
            context = Context(c.fleet, c.head.lineage, holder.run, epoch)
            body = entries.control("restored", holder.who, source=source, entries=c.head.sequence)
            sealed = entries.seal([body], context, c.head, rfc3339(clock.now()))
            store.append(c.fleet, c.head.sequence, sealed, leases[c.fleet].epoch)


def documents_of(journal: Sequence[Mapping[str, Any]]) -> list[str]:
    """The documents that a journal names, each once, in order."""
    named = (e.get("document") for e in journal if e["kind"] == Kind.RUN_STARTED.value)
    return list(dict.fromkeys(d for d in named if isinstance(d, str)))


def _ensure_beginning(source: Store, target: Store, fleet: str) -> None:
    there = target.head(fleet)
    if there.sequence == 0:
        return
    journal = islice(source.read(fleet), there.sequence - 1, there.sequence)
    if [sha256_hex(encode(e)) for e in journal] != [there.sha256]:
        raise _other(target, f"it has {there.sequence} entries of fleet {fleet} that are not these")


def _other(target: Store, why: str) -> OtherState:
    return OtherState(
        f"the state {target.describe()} is not empty: {why}",
        hint="name a place that holds no state; nothing was changed",
    )


def _copy_fleet(source: Store, target: Store, fleet: str, epoch: int) -> Copied:
    journal = list(source.read(fleet))
    documents = documents_of(journal)
    for digest in documents:
        target.put(source.get(digest))
    head = target.head(fleet)
    began = head.sequence
    while head.sequence < len(journal):
        batch = journal[head.sequence : head.sequence + BATCH_ENTRIES]
        head = target.append(fleet, head.sequence, batch, epoch)
    last = ""
    for entry in target.read(fleet):  # proves the chain of what was written
        last = sha256_hex(encode(entry))
    if last != sha256_hex(encode(journal[-1])):
        raise StateError(f"fleet {fleet} was not copied whole to {target.describe()}", code="state.damaged")
    return Copied(fleet, head.sequence - began, head, len(documents))

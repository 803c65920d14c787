"""cordon and uncordon: whether nodes may be started on a host, kept as control entries in every fleet's journal.

A journal is per fleet and a host is not, so the word is written into each: also for a fleet that is not on the host
yet, which must not come there either.
"""

from __future__ import annotations

from executors.clock import rfc3339
from fleetctl.engine.apply import Engine
from fleetctl.engine.controls import APPENDS_MAX, writing
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.ports import JournalConflict
from fleetctl.ledger.replay import CORDON, UNCORDON, replay


def mark(engine: Engine, fleets: list[str], host: str, *, cordoned: bool) -> list[str]:
    """Writes the word into the journals that do not have it yet, and gives their fleets. Raises StateError."""
    engine.store.initialise()
    return [fleet for fleet in fleets if _mark(engine, fleet, host, cordoned)]


def _mark(engine: Engine, fleet: str, host: str, cordoned: bool) -> bool:
    store = engine.store
    for _ in range(APPENDS_MAX):
        recorded = replay(fleet, store.read(fleet)).recorded
        if (host in recorded.cordoned) is cordoned:
            return False
        head = store.head(fleet)
        if head.sequence != recorded.serial:
            continue
        try:
            with writing(store, fleet, engine.holder) as epoch:
                # The word may be the first that is ever said of a fleet.
                context = Context(fleet, recorded.lineage or engine.clock.new_id(), "", epoch)
                body = entries.control(CORDON if cordoned else UNCORDON, engine.holder.who, host=host)
                sealed = seal([body], context, head, rfc3339(engine.clock.now()))
                store.append(fleet, head.sequence, sealed, epoch)
        except JournalConflict:
            continue
        return True
    raise JournalConflict(f"the journal of fleet {fleet} is too busy", hint="run the command again")

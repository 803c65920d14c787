"""Before nodes of another lineage are taken over: the epochs of this one begin above what they have seen.

Lineages fence one another by name. The epoch is raised as well, so that whoever compares numbers only (a person, a
log, a driver of a later release) never sees one that went back.
"""

from __future__ import annotations

from executors.clock import rfc3339
from fleetctl.engine.apply import Engine
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.replay import replay

TTL_S = 30.0


def rise_above(engine: Engine, fleet: str, epoch: int) -> int:
    """Makes sure that the fleet's next lease has an epoch above `epoch`; gives the one that was written, or 0.

    Raises LeaseHeld where the fleet is held, and StateError.
    """
    store = engine.store
    store.initialise()
    lease = store.acquire(fleet, engine.holder, TTL_S)
    try:
        if lease.epoch > epoch:
            return 0
        recorded = replay(fleet, store.read(fleet)).recorded
        # The word may be the first that is ever said of a fleet.
        context = Context(fleet, recorded.lineage or engine.clock.new_id(), "", epoch)
        body = entries.control("adopting", engine.holder.who, above=epoch)
        sealed = seal([body], context, store.head(fleet), rfc3339(engine.clock.now()))
        store.append(fleet, recorded.serial, sealed, lease.epoch)
        return epoch
    finally:
        store.release(lease)

"""move: another name for a node or a group, in the ledger alone. Physical names derive from the uid, so nothing is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetctl.engine.errors import RunWaiting, UnknownOutcome
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.ports import Holder, Store
from fleetctl.ledger.replay import Replayed, replay
from manifests.address import GroupAddress, NodeAddress
from manifests.errors import RefusedError
from manifests.suggest import did_you_mean
from planner.recorded import Recorded

Named = NodeAddress | GroupAddress
WRITE_TTL_S = 30.0
"""The names are written in an instant; whoever dies in it elsewhere is replaced after this."""


@dataclass(frozen=True, slots=True)
class Rename:
    """One node's new name and group."""

    uid: str
    before: str
    after: str
    group: str


def renames(recorded: Recorded, source: Named, target: Named) -> tuple[Rename, ...]:
    """The nodes that get another name or group when `source` becomes `target`.

    Nodes that count their group's name (GROUP-0, GROUP-1, …) follow it. Raises RefusedError for a name that nobody
    has, one that is taken, and a move to another fleet.
    """
    if type(source) is not type(target) or source.fleet != target.fleet:
        raise RefusedError(
            f"{source} cannot become {target}: a node keeps its fleet, whose journal and lineage it belongs to",
            hint="a move gives a node or a group of one fleet another name",
            code="move.other-fleet",
        )
    live = recorded.live()
    if isinstance(source, NodeAddress):
        node = live.get(source.name)
        if node is None:
            raise _nobody(source, live)
        found: tuple[Rename, ...] = (Rename(node.uid, node.name, target.name, node.group),)
    else:
        counted = re.compile(rf"{re.escape(source.name)}-(\d+)")
        found = tuple(
            Rename(n.uid, n.name, counted.sub(rf"{target.name}-\1", n.name) if counted.fullmatch(n.name) else n.name,
                   target.name)
            for n in live.values()
            if n.group == source.name
        )  # fmt: skip
        if not found:
            raise _nobody(source, {n.group for n in live.values()})
    going = {r.before for r in found}
    taken = sorted({r.after for r in found if r.after in live and r.after not in going})
    if taken:
        raise RefusedError(
            f"fleet/{source.fleet} has a node named {', '.join(taken)} already",
            hint="move that one out of the way first",
            code="move.taken",
        )
    return found


def _nobody(source: Named, known: object) -> RefusedError:
    names = sorted(known) if isinstance(known, (dict, set)) else []
    hint = did_you_mean(source.name, names) or f"it has {', '.join(names[:10]) or 'none'}"
    return RefusedError(f"the state knows no {source}", hint=hint, code="move.unknown")


def rename(store: Store, holder: Holder, at: str, source: Named, target: Named) -> tuple[Rename, ...]:
    """Writes the new names, at this time (RFC 3339), while the fleet is held; gives what was renamed.

    Raises LeaseHeld (6) where a run is under way, UnknownOutcome (5) or RunWaiting (8) where one is open, and
    RefusedError as `renames` does.
    """
    fleet = source.fleet
    lease = store.acquire(fleet, holder, WRITE_TTL_S)
    try:
        replayed = replay(fleet, store.read(fleet))
        _ensure_no_run(replayed)
        recorded = replayed.recorded
        found = renames(recorded, source, target)
        moved = [r for r in found if r.before != r.after or r.group != recorded.nodes[r.uid].group]
        if moved:
            context = Context(fleet, recorded.lineage or "", "", lease.epoch)
            bodies = [entries.node_renamed(r.uid, r.after, r.group, holder.who) for r in moved]
            store.append(fleet, recorded.serial, seal(bodies, context, store.head(fleet), at), lease.epoch)
        return found
    finally:
        store.release(lease)


def _ensure_no_run(replayed: Replayed) -> None:
    run = replayed.open_run
    if run is None:
        return
    if run.waiting:
        raise RunWaiting(
            f"run {run.run} of fleet/{run.fleet} waits, and its plan has the old names: {run.waiting}",
            hint="end it first: fleetctl resume, promote or abort",
        )
    raise UnknownOutcome(
        f"run {run.run} of fleet/{run.fleet} was cut off, and its plan has the old names",
        hint="settle it first: fleetctl recover",
    )

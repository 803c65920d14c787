"""What libvirt says of a domain -> ObservedNode. Pure.

Crashed, paused and suspended domains are told apart: a crashed one ended, a paused one may go on, and one
that suspended itself has to be woken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from executors.libvirt import metadata, names
from executors.libvirt.metadata import Metadata
from executors.libvirt.read_back import Surroundings, overlay, read_back
from planner.observed import HealthState, NodeState, ObservedNode
from planner.plan import StepKind

# virDomainState of libvirt's API; the numbers are part of its ABI.
NOSTATE, RUNNING, BLOCKED, PAUSED, SHUTDOWN, SHUTOFF, CRASHED, PMSUSPENDED = range(8)
SAVED = 5  # VIR_DOMAIN_SHUTOFF_SAVED
_STATES = {
    NOSTATE: "in no state",
    RUNNING: "running",
    BLOCKED: "running",
    PAUSED: "paused",
    SHUTDOWN: "shutting down",
    SHUTOFF: "shut off",
    CRASHED: "crashed",
    PMSUSPENDED: "suspended by the guest",
}
# virDomainShutoffReason and virDomainPausedReason.
_SHUTOFF_REASONS = {
    1: "by the guest",
    2: "destroyed",
    3: "crashed",
    4: "migrated away",
    SAVED: "saved",
    6: "failed to start",
    7: "from a snapshot",
    8: "libvirt ended it",
}
_PAUSED_REASONS = {
    1: "by a user",
    2: "migrating",
    3: "being saved",
    4: "being dumped",
    5: "an input or output error",
    6: "its watchdog",
    7: "from a snapshot",
    8: "shutting down",
    9: "a snapshot is taken",
    10: "crashed",
    11: "starting",
    12: "after a migration",
    13: "after a migration that failed",
}
# Enough of an operation's id to tell two starts apart.
STARTED_SHOWN = 12
ACTIVE = frozenset({RUNNING, BLOCKED, PAUSED, SHUTDOWN, PMSUSPENDED})
# What was meant to be off: never started since it was placed, or stopped by us.
_MEANT_OFF = frozenset({StepKind.CREATE.value, StepKind.STOP.value, StepKind.ADOPT.value})


@dataclass(frozen=True, slots=True)
class Seen:
    """A domain as one look found it. `live` is None while it is off; `number` is its id while it runs."""

    uuid: str
    state: int
    reason: int
    number: int
    defined: ET.Element
    live: ET.Element | None = None

    @property
    def active(self) -> bool:
        """Whether QEMU runs."""
        return self.state in ACTIVE

    @property
    def now(self) -> ET.Element:
        """What runs, or else what is defined."""
        return self.live if self.live is not None else self.defined

    @property
    def ours(self) -> Metadata | None:
        """What it says of itself; None: it is not ours. Raises ValueError when that is damaged."""
        found = metadata.find(self.now)
        return None if found is None else metadata.read(found)


def is_ours(seen: Seen) -> bool:
    """Whether our metadata is on it."""
    return metadata.find(seen.now) is not None


def measured(seen: Seen) -> tuple[str, ...]:
    """The volumes whose size was declared, and is compared; none of a domain whose metadata is damaged."""
    try:
        ours = seen.ours
    except ValueError:
        return ()
    if ours is None:
        return ()
    prefix = "domain.volumes."
    sized = [names.data(ours.uid, f.removeprefix(prefix)) for f in ours.fields if f.startswith(prefix)]
    disk = overlay(seen.now, ours.uid) if "domain.boot.disk_size" in ours.fields else None
    return (*sized, *(() if disk is None else (disk,)))


def is_saved(seen: Seen) -> bool:
    """Whether its memory was written out when it ended, as far as libvirt remembers."""
    return (seen.state, seen.reason) == (SHUTOFF, SAVED)


def words(seen: Seen) -> str:
    """State and reason for people."""
    return state_words(seen.state, seen.reason)


def state_words(state: int, reason: int) -> str:
    """State and reason for people."""
    reasons: Mapping[int, str] = {SHUTOFF: _SHUTOFF_REASONS, PAUSED: _PAUSED_REASONS}.get(state, {})
    why = reasons.get(reason)
    return _STATES.get(state, f"state {state}") + (f" ({why})" if why else "")


def instance(seen: Seen) -> str | None:
    """Names this very start: libvirt counts every start of every domain, and the operation tells hosts' boots apart."""
    if not seen.active:
        return None
    found = metadata.find(seen.now)
    started = found.get("started", "") if found is not None else ""
    return f"{first_of_instance(seen.number)}{started[:STARTED_SHOWN]}"


def first_of_instance(number: int) -> str:
    """What an instance of a domain with this id begins with."""
    return f"domain {number}."


def node_state(seen: Seen, effect: str) -> NodeState:
    """The state in the planner's words. `effect` is the last of ours."""
    if seen.state in (RUNNING, BLOCKED, SHUTDOWN):
        return NodeState.RUNNING
    if seen.state in (PAUSED, PMSUSPENDED):
        return NodeState.PAUSED
    if seen.state == SHUTOFF:
        return NodeState.STOPPED if effect in _MEANT_OFF else NodeState.EXITED
    return NodeState.EXITED if seen.state == CRASHED else NodeState.DAMAGED


def node(seen: Seen, around: Surroundings, address: str | None = None) -> ObservedNode:
    """A domain of ours as an observed node. `address` is the one that was found for it."""
    try:
        ours = seen.ours
    except ValueError as e:
        return _damaged(seen, str(e))
    assert ours is not None, "only domains of ours are nodes"
    defined = seen.defined if seen.live is not None else None
    fields = read_back(seen.now, defined, ours.fields, ours.uid, around)
    return ObservedNode(
        uid=ours.uid,
        fleet=ours.fleet,
        name=ours.node,
        lineage=ours.lineage,
        epoch=ours.epoch,
        generation=ours.generation,
        version=ours.version,
        digest=fields.get("artifact.digest", ours.digest),
        fields=fields,
        state=node_state(seen, ours.effect),
        health=HealthState.UNKNOWN,
        instance=instance(seen),
        operation=ours.operation,
        attempt=ours.attempt,
        port=ours.port,
        address=address or ours.address,
        detail=words(seen),
    )


def _damaged(seen: Seen, why: str) -> ObservedNode:
    found = metadata.find(seen.now)
    given = {} if found is None else found.attrib
    return ObservedNode(
        uid=given.get("uid", ""),
        fleet=given.get("fleet", ""),
        name=given.get("node", ""),
        lineage=given.get("lineage", ""),
        epoch=0,
        generation=0,
        version=given.get("version", ""),
        digest=given.get("digest", ""),
        state=NodeState.DAMAGED,
        detail=f"{words(seen)}; {why}",
    )

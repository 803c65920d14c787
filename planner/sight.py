"""The snapshot, indexed: what was seen of a fleet's nodes, and which places did not answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from planner.observed import HealthState, ObservedHost, ObservedNode, Snapshot
from planner.recorded import RecordedNode

DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Seen:
    """A node and the place it was seen at."""

    node: ObservedNode
    host: str
    substrate: str


@dataclass(frozen=True, slots=True)
class Sight:
    """One fleet's nodes as seen. `twice` has the uids that were seen at more than one place."""

    by_uid: dict[str, Seen] = field(default_factory=dict)
    by_name: dict[str, Seen] = field(default_factory=dict)
    twice: dict[str, tuple[Seen, Seen]] = field(default_factory=dict)


Places = dict[tuple[str, str], ObservedHost]
"""Hosts as observed, by name and substrate."""


def withdrawn(at: str | None, node: ObservedNode) -> bool:
    """Whether a node that was told to serve no more `at` a time is still in that start; None: it never was told."""
    if at is None or node.started_at is None:
        return at is not None
    return datetime.fromisoformat(node.started_at) <= datetime.fromisoformat(at)


def index(
    snapshot: Snapshot, recorded: Mapping[str, RecordedNode] | None = None
) -> tuple[Places, dict[str, Sight]]:
    """The places of a snapshot, and by fleet what was seen there.

    `recorded` by uid: those that were drained and not started since serve nobody, whatever their probes say.
    """
    places: Places = {}
    fleets: dict[str, Sight] = {}
    for host in snapshot.hosts:
        places[host.name, host.substrate] = host
        for found in host.nodes:
            node = found
            known = recorded.get(node.uid) if recorded else None
            if known is not None and known.drained and node.available and withdrawn(known.withdrawn_at, node):
                node = node.model_copy(update={"health": HealthState.UNKNOWN, "detail": DRAINED})
            sight = fleets.get(node.fleet)
            if sight is None:
                sight = fleets[node.fleet] = Sight()
            seen = Seen(node, host.name, host.substrate)
            first = sight.by_uid.setdefault(node.uid, seen)
            if first is not seen:
                sight.twice[node.uid] = (first, seen)
                continue
            other = sight.by_name.get(node.name)
            # Of two nodes that bear one name, the one that serves is the one that is meant.
            if other is None or (node.available and not other.node.available):
                sight.by_name[node.name] = seen
    return places, fleets


def unseen(places: Places, host: str, substrate: str) -> str | None:
    """Why nothing is known of this place now; None when it answered."""
    place = places.get((host, substrate))
    if place is None:
        return "it was not asked"
    return None if place.reachable else (place.error or "it does not answer")

"""Drift: what is really there against what fleetctl has recorded, apart from what the manifests want next.

A plan compares what is wanted with what is there, so a change that is pending and one that somebody made by hand look
alike in it. Here the recorded specification stands between the two: recorded against observed is drift, wanted
against recorded is pending. Unseen is neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from manifests.manifest import Manifests
from planner.change import Reason
from planner.compare import differing, release_reasons
from planner.desired import desire
from planner.frame import ROOT_DEFAULT
from planner.observed import NodeState, ObservedNode, Snapshot
from planner.options import Options
from planner.recorded import Recorded, RecordedNode
from planner.sight import Places, Seen, Sight, index, unseen
from planner.situation import Findings, Situation
from planner.spec import NodeSpec, ReleaseIdentity, fields

_RUNNING = NodeState.RUNNING
# What a node does not do by itself, or by a word of fleetctl.
_STATES = {
    NodeState.EXITED: "it ended outside of fleetctl",
    NodeState.RESTARTING: "it keeps ending and being started again",
    NodeState.PAUSED: "it was paused outside of fleetctl",
    NodeState.DAMAGED: "its record cannot be read",
}


@dataclass(frozen=True, slots=True)
class Drifted:
    """One node that is not as it was left. `reasons` go from what was recorded (before) to what is there (after).

    `kind`: `changed`, `gone` (its host answered and does not have it), `stranger` (nothing records it), `returned`
    (it was destroyed and is there again) or `foreign` (another lineage or generation acts on it).
    """

    node: str
    uid: str
    host: str
    kind: str
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetDrift:
    """One fleet. `pending` are the nodes that the manifests would change, add or take away; `unseen` names by host."""

    fleet: str
    drifted: tuple[Drifted, ...]
    pending: tuple[str, ...]
    unseen: Mapping[str, tuple[str, ...]]
    unchecked: tuple[str, ...]


def drift(
    manifests: Manifests, observed: Snapshot, recorded: Mapping[str, Recorded], secrets: Mapping[str, str]
) -> tuple[FleetDrift, ...]:
    """What changed outside of fleetctl, fleet by fleet.

    `secrets` maps a reference to the keyed digest of its value, for the manifests' and the recorded ones alike.
    """
    places, sights = index(observed)
    taken: dict[tuple[str, int], str] = {}
    return tuple(
        _fleet(
            Situation(
                fleet=manifests.fleets[name],
                manifests=manifests,
                recorded=recorded.get(name) or Recorded(fleet=name),
                sight=sights.get(name) or Sight(),
                places=places,
                options=Options(),
                secrets=secrets,
                taken=taken,
            )
        )
        for name in manifests.fleets
    )


def _fleet(situation: Situation) -> FleetDrift:
    drifted: list[Drifted] = []
    away: dict[str, list[str]] = {}
    unchecked: set[str] = set()
    by_uid = situation.sight.by_uid
    for known in situation.recorded.nodes.values():
        seen = by_uid.get(known.uid)
        if known.destroyed:
            if seen is not None:
                drifted.append(Drifted(known.name, known.uid, seen.host, "returned"))
            continue
        if seen is None and _unseen(situation.places, known):
            away.setdefault(known.host, []).append(known.name)
        elif seen is None:
            drifted.append(Drifted(known.name, known.uid, known.host, "gone"))
        else:
            found, left = _node(situation, known, seen)
            unchecked.update(f"{known.name}: {field}" for field in left)
            if found is not None:
                drifted.append(found)
    drifted += [
        Drifted(seen.node.name, uid, seen.host, "stranger", _strange(seen.node))
        for uid, seen in by_uid.items()
        if uid not in situation.recorded.nodes
    ]
    return FleetDrift(
        situation.name,
        tuple(sorted(drifted, key=lambda d: (d.node, d.uid))),
        _pending(situation),
        {host: tuple(sorted(names)) for host, names in sorted(away.items())},
        tuple(sorted(unchecked)),
    )


def _unseen(places: Places, known: RecordedNode) -> bool:
    substrate = known.spec.substrate if known.spec else "host"
    return unseen(places, known.host, substrate) is not None


def _node(situation: Situation, known: RecordedNode, seen: Seen) -> tuple[Drifted | None, list[str]]:
    """What of a recorded node is not as it was left, and the fields that nobody can compare."""
    node, ours = seen.node, situation.recorded.lineage
    if node.lineage != ours or node.generation != known.generation:
        reasons = [
            Reason(code=name, field=name, before=str(before), after=str(after))
            for name, before, after in (
                ("lineage", ours, node.lineage),
                ("generation", known.generation, node.generation),
            )
            if before != after
        ]
        return Drifted(known.name, known.uid, seen.host, "foreign", tuple(reasons)), []
    reasons, left = _changes(situation, known, node)
    if seen.host != known.host:
        reasons.append(Reason(code="host", field="host", before=known.host, after=seen.host))
    if node.state in _STATES:
        state = _STATES[node.state] + (f": {node.detail}" if node.detail else "")
        reasons.append(Reason(code="state", field="state", before="running", after=state))
    if not reasons:
        return None, left
    return Drifted(known.name, known.uid, seen.host, "changed", tuple(reasons)), left


def _changes(situation: Situation, known: RecordedNode, node: ObservedNode) -> tuple[list[Reason], list[str]]:
    if known.spec is None:
        return [], ["everything: no specification is recorded"]
    host = situation.manifests.hosts.get(known.host)
    return changes(known.spec, node, None if host is None else host.root, situation.secrets)


def changes(
    spec: NodeSpec, node: ObservedNode, root: str | None, secrets: Mapping[str, str]
) -> tuple[list[Reason], list[str]]:
    """How a node differs from what was placed, from the recorded value to the one that is there; and the fields that
    nobody can compare. `root` is its host's; `secrets` as for `drift`, those left out are compared by reference.
    """
    there = ReleaseIdentity(version=node.version, digest=node.digest)
    reasons = [] if there == spec.identity else list(release_reasons(spec.identity, there))
    found, left = differing(fields(spec, secrets), node, spec, spec, root or ROOT_DEFAULT)
    # A plan goes from what is there to what is wanted; here the recorded value comes first.
    reasons += [r.model_copy(update={"before": r.after, "after": r.before}) for r in found]
    return reasons, left


def _strange(node: ObservedNode) -> tuple[Reason, ...]:
    return (Reason(code="lineage", field="lineage", after=node.lineage or "none"),)


def _pending(situation: Situation) -> tuple[str, ...]:
    """The nodes for which the manifests want something else than what is recorded."""
    desired, placed = desire(situation, Findings())
    recorded = situation.recorded.nodes
    waiting = []
    for wanted in desired:
        known = recorded.get(wanted.placed.uid)
        spec = known.spec if known is not None and not known.destroyed else None
        if spec is None or fields(spec, situation.secrets) != wanted.fields:
            waiting.append(wanted.name)
    waiting += [n.name for n in situation.recorded.live().values() if n.uid not in placed]
    return tuple(sorted(set(waiting)))

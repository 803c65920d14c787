"""A fleet as it was last seen, when only one of the two tells of it: the state, or a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from manifests.manifest import Manifests
from manifests.schema.fleet import Fleet
from planner.applied import unseen_hosts
from planner.artifact import file_name
from planner.leaving import spec_as_seen
from planner.observed import ObservedHost, ObservedNode, Snapshot
from planner.outcome import healthy
from planner.recorded import Recorded, RecordedNode
from planner.sight import Seen, index
from planner.spec import NodeSpec, fields


def as_recorded(recorded: Mapping[str, Recorded], wanted: Manifests, now: str) -> Snapshot:
    """The snapshot in which every recorded node runs as it was last specified, and is healthy."""
    places: dict[tuple[str, str], list[ObservedNode]] = {}
    for known in recorded.values():
        for node in known.live().values():
            if node.spec is not None:
                managed = fields(node.spec, {})
                seen = healthy(
                    known.fleet, node.name, node.uid, node.generation, node.spec, known.lineage or "", managed
                )
                places.setdefault((node.host, node.spec.substrate), []).append(seen)
    empty = {(h.name, h.substrate): h for h in unseen_hosts(wanted, wanted)}
    hosts = []
    for name, substrate in sorted(empty.keys() | places.keys()):
        nodes = tuple(places.get((name, substrate), ()))
        host = empty.get((name, substrate)) or ObservedHost(name=name, substrate=substrate, reachable=True)
        hosts.append(host.model_copy(update={"nodes": nodes}))
    return Snapshot(taken_at=now, hosts=tuple(hosts))


def as_observed(snapshot: Snapshot, wanted: Manifests) -> dict[str, Recorded]:
    """What a state would hold, by fleet, of the nodes that were seen: names, places, and the first one's lineage."""
    _, sights = index(snapshot)
    found: dict[str, Recorded] = {}
    for name, fleet in wanted.fleets.items():
        seen_nodes = sights[name].by_uid.values() if name in sights else ()
        nodes = {
            seen.node.uid: RecordedNode(
                seen.node.uid,
                seen.node.name,
                "",
                seen.host,
                seen.node.port,
                seen.node.generation,
                _spec(seen, fleet, wanted),
            )
            for seen in seen_nodes
        }
        lineage = next((seen.node.lineage for seen in seen_nodes), None)
        found[name] = Recorded(fleet=name, lineage=lineage, serial=len(nodes), nodes=nodes)
    return found


def _spec(seen: Seen, fleet: Fleet, wanted: Manifests) -> NodeSpec:
    """What is known of a node; under its artifact's own name where the manifests still have its release, so that
    a command that only names another release's artifact is not taken for another command.
    """
    product = fleet.release.product
    spec = spec_as_seen(seen, product)
    release = wanted.releases.get((product, seen.node.version))
    for artifact in () if release is None else release.artifacts:
        if artifact.digest == seen.node.digest:
            pin = spec.artifact.model_copy(update={"name": file_name(artifact.source)})
            return spec.model_copy(update={"artifact": pin})
    return spec

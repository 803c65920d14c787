"""The world in which manifests are fully applied: every node where it belongs, as declared, and healthy.

What `review` starts from: the difference between two manifests is the plan that leads from the one, applied,
to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from manifests.errors import ManifestError
from manifests.manifest import Manifests
from manifests.schema.fleet import Fleet, Group, ReleasePin
from manifests.schema.release import Architecture, Release
from planner.desired import desire
from planner.observed import ObservedHost, ObservedNode, Snapshot
from planner.options import Options
from planner.outcome import healthy
from planner.recorded import Recorded, RecordedNode
from planner.sight import Sight, index
from planner.situation import Findings, Situation

LINEAGE = "as-declared"
# A host of which nothing is known is taken for the first of these that all its releases are made for.
_LIKELY: tuple[Architecture, ...] = ("x86_64", "aarch64")


def applied(manifests: Manifests, beside: Manifests, now: str) -> tuple[Snapshot, dict[str, Recorded]]:
    """What would be observed and recorded, by fleet, if these manifests had been applied and all were well.

    The hosts are those of `manifests` and of `beside`, all reachable. Secrets are known by reference only.
    Raises ManifestError with the findings of what cannot be rendered or placed.
    """
    hosts = tuple(unseen_hosts(manifests, beside))
    places, _ = index(Snapshot(taken_at=now, hosts=hosts))
    taken: dict[tuple[str, int], str] = {}
    nodes: dict[tuple[str, str], list[ObservedNode]] = {}
    recorded: dict[str, Recorded] = {}
    errors = []
    for name, fleet in manifests.fleets.items():
        situation = Situation(
            fleet=fleet,
            manifests=manifests,
            recorded=Recorded(fleet=name),
            sight=Sight(),
            places=places,
            options=Options(),
            secrets={},
            taken=taken,
        )
        findings = Findings()
        known = {}
        # A node that has no artifact for its host was never placed, so it is left out.
        for desired in desire(situation, findings)[0]:
            placed, spec = desired.placed, desired.spec
            known[placed.uid] = RecordedNode(
                placed.uid, placed.name, placed.group.name, placed.host, placed.port, 1, spec, spec
            )
            seen = healthy(name, placed.name, placed.uid, 1, spec, LINEAGE, desired.fields)
            nodes.setdefault((placed.host, spec.substrate), []).append(seen)
        errors += findings.errors
        recorded[name] = Recorded(fleet=name, lineage=LINEAGE, serial=1, nodes=known)
    if errors:
        raise ManifestError(errors)
    full = tuple(
        host.model_copy(update={"nodes": tuple(nodes.get((host.name, host.substrate), ()))}) for host in hosts
    )
    return Snapshot(taken_at=now, hosts=full), recorded


def unseen_hosts(manifests: Manifests, beside: Manifests) -> Iterator[ObservedHost]:
    """Every place that the fleets of both use, reachable and empty, with the architecture that is assumed."""
    wanted: dict[tuple[str, str], list[Release]] = {}
    for place, release in (*_releases(manifests), *_releases(beside)):
        wanted.setdefault(place, []).append(release)
    for name, substrate in sorted(wanted):
        arch = _architecture(wanted[name, substrate], substrate)
        yield ObservedHost(name=name, substrate=substrate, reachable=True, arch=arch)


def _architecture(releases: Iterable[Release], substrate: str) -> Architecture | None:
    """One that every release has an artifact for; None where any will do, or some release has none."""
    offers = [{a.arch for a in r.artifacts if a.substrate == substrate} for r in releases]
    exact = [offer for offer in offers if "any" not in offer]
    return next((arch for arch in _LIKELY if exact and all(arch in offer for offer in exact)), None)


def _releases(manifests: Manifests) -> Iterator[tuple[tuple[str, str], Release]]:
    """Each place that a fleet's nodes may be at, with each release that may have to run there."""
    for fleet in manifests.fleets.values():
        for group in fleet.groups:
            hosts = set(group.hosts) | {n.host for n in group.nodes or () if n.host is not None}
            pins = {(p.product, p.version) for p in _pins(fleet, group)}
            for pin in sorted(pins & manifests.releases.keys()):
                for host in hosts:
                    yield (host, group.substrate), manifests.releases[pin]


def _pins(fleet: Fleet, group: Group) -> Iterator[ReleasePin]:
    yield group.release or fleet.release
    for node in group.nodes or ():
        if node.release is not None:
            yield node.release

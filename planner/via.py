"""A transition that is not declared, as the consecutive rollouts of a path that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from manifests.errors import RefusedError
from manifests.manifest import Manifests
from manifests.schema.fleet import Fleet, Group, ReleasePin
from planner.compat import Pairs
from planner.make import make
from planner.observed import Snapshot
from planner.options import Options
from planner.outcome import outcome
from planner.plan import Plan
from planner.recorded import Recorded
from planner.strategy import way


def consecutive(
    manifests: Manifests,
    observed: Snapshot,
    recorded: Mapping[str, Recorded],
    options: Options,
    now: str,
    secrets: Mapping[str, str],
    fleet: str,
) -> tuple[Plan, ...]:
    """The plans that lead one fleet along the shortest declared path to its release, to be applied in this order.

    Arguments as for `make`. Each plan starts from what the one before leaves; the first that is refused is the
    last. One plan, where no path is needed. Raises RefusedError when no path is declared, when the nodes are
    not on one path, or when a release on the way is not declared, and what `make` raises.
    """
    options = replace(options, fleets=(fleet,))
    whole = make(manifests, observed, recorded, options, now, secrets)
    wanted = manifests.fleets[fleet]
    stops = _stops(manifests, wanted, whole)
    if not stops:
        return (whole,)
    plans: list[Plan] = []
    known = dict(recorded)
    for version in stops:
        there = replace(
            manifests, fleets={**manifests.fleets, fleet: _pinned(wanted, wanted.release.version, version)}
        )
        plan = make(there, observed, known, options, now, secrets)
        plans.append(plan)
        if plan.refused:
            break
        inside = next(f for f in plan.fleets if f.fleet == fleet)
        observed, known[fleet] = outcome(inside, observed, known.get(fleet) or Recorded(fleet), secrets)
    return tuple(plans)


def _stops(manifests: Manifests, wanted: Fleet, whole: Plan) -> list[str]:
    """The versions on the way, the last one included; empty when the way is direct."""
    target, product = wanted.release.version, wanted.release.product
    plan = next(f for f in whole.fleets if f.fleet == wanted.name)
    unknown = [v.from_ for v in plan.verdicts if v.mode == "unknown" and v.to == target and not v.together]
    if not unknown:
        return []
    pairs = Pairs(manifests, product)
    paths = sorted(((old, pairs.path(old, target)) for old in unknown), key=lambda p: -len(p[1]))
    old, path = paths[0]
    for start, found in paths:
        if not found:
            raise RefusedError(
                f"no path of declared pairs leads {product} from {start} to {target}",
                hint=f"declare one: {pairs.last_place or 'in a document of kind Compatibility'}",
                code="compat.no-path",
            )
    versions = [old, *(v.to for v in path)]
    # Nodes that are further on must not be taken back to where the others pass.
    ahead = {
        c.before.version
        for c in plan.changes
        if c.counted and c.before is not None and c.after is not None and c.after.version == target
    } - {versions[0], versions[1], target}
    if ahead:
        raise RefusedError(
            f"the nodes are not on one path: {', '.join(sorted(ahead))} is live beside {old}, and the way is "
            f"{way(path)}",
            hint="bring them to one version first, with --target",
            code="compat.no-path",
        )
    for version in versions[1:]:
        if (product, version) not in manifests.releases:
            raise RefusedError(
                f"the way is {way(path)}, and there is no Release of {product} {version}",
                hint="add it to the manifests, with its artifacts and digests",
                code="compat.no-release",
            )
    return versions[1:]


def _pinned(fleet: Fleet, target: str, version: str) -> Fleet:
    """The fleet with every pin to its target moved to another version; other pins stay."""

    def moved(pin: ReleasePin | None) -> ReleasePin | None:
        return (
            pin.model_copy(update={"version": version}) if pin is not None and pin.version == target else pin
        )

    def of(group: Group) -> Group:
        nodes = group.nodes
        if nodes is not None:
            nodes = tuple(n.model_copy(update={"release": moved(n.release)}) for n in nodes)
        return group.model_copy(update={"release": moved(group.release), "nodes": nodes})

    return fleet.model_copy(
        update={"release": moved(fleet.release), "groups": tuple(of(g) for g in fleet.groups)}
    )

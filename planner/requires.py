"""Order between fleets: one that requires another goes after it, and only onto versions that it works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from manifests.diagnostics import error
from manifests.errors import ManifestError
from manifests.manifest import Manifests
from planner.plan import FleetPlan
from planner.situation import Findings, Situation
from planner.work import Work


def ordered_fleets(manifests: Manifests, names: Iterable[str]) -> list[str]:
    """The fleets, each after those that it requires, else in the manifests' order; raises ManifestError for a ring."""
    chosen = list(names)
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name in chosen:
        sorter.add(name, *(r.fleet for r in manifests.fleets[name].requires if r.fleet in chosen))
    try:
        sorter.prepare()
    except CycleError as e:
        ring = list(e.args[1])
        raise ManifestError(
            [
                error(
                    "requires.ring",
                    "Fleets require one another in a ring",
                    " -> ".join(ring),
                    span=manifests.where(("Fleet", ring[0]), ("requires",)),
                    hint="one of them has to be able to go first: remove its requirement",
                )
            ]
        ) from e
    out: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=chosen.index)
        out += ready
        sorter.done(*ready)
    return out


def gate(
    situation: Situation, findings: Findings, works: Iterable[Work], planned: Mapping[str, FleetPlan]
) -> None:
    """Refuses to move a fleet while one that it requires has, or comes to have, a version it does not work with.

    `planned` are the plans that are carried out before this one, and those of fleets that are not touched.
    """
    if not any(w.links and w.new is not None for w in works):
        return
    for i, requirement in enumerate(situation.fleet.requires):
        place = situation.place("requires", i)
        other = planned.get(requirement.fleet)
        if other is None:
            findings.refuse(
                "requires.unknown-fleet",
                "A required fleet is not in this plan",
                f"{situation.name} requires {requirement.fleet}, which these manifests do not declare",
                place=place,
                hint=f"plan it together with the manifests of {requirement.fleet}",
            )
            continue
        allowed = set(requirement.versions)
        wrong = [
            f"{c.node} ({c.after.version if c.after else 'nothing'})"
            for c in other.changes
            if c.counted and (c.after is None or c.after.version not in allowed)
        ]
        if other.refusals or wrong:
            why = (
                f"its own plan is refused ({other.refusals[0].summary})"
                if other.refusals
                else ", ".join(wrong[:5])
            )
            findings.refuse(
                "requires.unmet",
                "A required fleet does not have a version that this one works with",
                f"{situation.name} works with {requirement.fleet} {', '.join(requirement.versions)}; {why}",
                place=place,
                hint=f"bring {requirement.fleet} to one of these versions first",
            )

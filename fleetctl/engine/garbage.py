"""Artifacts that nothing needs any more: found, shown, and removed on request, never in passing.

Needed is what a recorded node runs or could go back to, what any node seen on the place runs (whoever
made it), and what came there so recently that somebody may be about to use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from executors.driver import Driver, StagedArtifact
from fleetctl.ledger.entries import Kind
from manifests.errors import FleetctlError
from planner.observed import ObservedHost
from planner.recorded import Recorded
from planner.spec import ArtifactPin

# The artifact a node is healthy with now, and the one before it: where a rollback leads.
WAYS_BACK = 2
Place = tuple[str, str]
"""A host and a substrate."""


@dataclass(frozen=True, slots=True)
class Found:
    """One staged artifact on a place. `kept` says why it stays; None: nothing needs it."""

    host: str
    substrate: str
    artifact: StagedArtifact
    kept: str | None


def pins_of(entries: Iterable[Mapping[str, Any]]) -> dict[Place, dict[str, ArtifactPin]]:
    """Every pin that a journal ever placed, by place and digest: what a place that cannot list is asked about."""
    pins: dict[Place, dict[str, ArtifactPin]] = {}
    for entry in entries:
        if entry.get("kind") == Kind.NODE_PLACED.value:
            spec = entry["spec"]
            pin = ArtifactPin.model_validate(spec["artifact"])
            pins.setdefault((str(spec["host"]), str(spec["substrate"])), {})[pin.digest] = pin
    return pins


def needed(journals: Iterable[tuple[Recorded, Iterable[Mapping[str, Any]]]]) -> dict[Place, dict[str, str]]:
    """The digests that recorded nodes run or could go back to, by place, each with a node that needs it.

    A way back is one of the last WAYS_BACK artifacts with which a node that still exists was healthy.
    """
    needs: dict[Place, dict[str, str]] = {}
    for recorded, entries in journals:
        live = {n.uid: n for n in recorded.live().values()}
        healthy: dict[str, dict[tuple[Place, tuple[str, ...]], None]] = {uid: {} for uid in live}
        placed: dict[str, Mapping[str, Any]] = {}
        for entry in entries:
            if entry.get("kind") == Kind.NODE_PLACED.value:
                placed[entry["uid"]] = entry["spec"]
            elif entry.get("kind") == Kind.NODE_HEALTHY.value and entry["uid"] in live:
                spec = placed[entry["uid"]]
                key = ((str(spec["host"]), str(spec["substrate"])), _digests(spec))
                healthy[entry["uid"]].pop(key, None)
                healthy[entry["uid"]][key] = None
        for uid, node in live.items():
            for place, digests in list(healthy[uid])[-WAYS_BACK:]:
                back = f"node/{recorded.fleet}/{node.name} could go back to it"
                needs.setdefault(place, {}).update(dict.fromkeys(digests, back))
            if node.spec is not None:
                place = (node.spec.host, node.spec.substrate)
                runs = f"node/{recorded.fleet}/{node.name} runs it"
                needs.setdefault(place, {}).update(dict.fromkeys((p.digest for p in node.spec.pins), runs))
    return needs


def _digests(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The digests of all that a recorded specification's node is made from (`NodeSpec.pins`)."""
    domain = spec.get("domain") or {}
    parts = (domain.get("boot") or {}, domain)
    pins = [part.get(name) for part in parts for name in ("disk", "kernel", "initrd", "template")]
    return (str(spec["artifact"]["digest"]), *(str(pin["digest"]) for pin in pins if pin))


def judge(
    seen: ObservedHost, staged: Sequence[StagedArtifact], needs: Mapping[str, str], min_age_s: float
) -> list[Found]:
    """What stays and what may go on one place, in the order of the digests."""
    there = {n.digest: f"node/{n.fleet}/{n.name} runs it" for n in seen.nodes}
    found = []
    for artifact in sorted(staged, key=lambda a: (a.digest, a.where)):
        kept = needs.get(artifact.digest) or there.get(artifact.digest)
        if kept is None and artifact.used:
            kept = "something else on the host uses it"
        if kept is None and artifact.age_s < min_age_s:
            kept = f"it came {artifact.age_s:.0f} s ago"
        found.append(Found(seen.name, seen.substrate, artifact, kept))
    return found


def find(
    places: Iterable[Place],
    open_driver: Callable[[str, str], Driver],
    journals: Iterable[tuple[Recorded, Iterable[Mapping[str, Any]]]],
    pins: Mapping[Place, Mapping[str, ArtifactPin]],
    min_age_s: float,
) -> tuple[list[Found], list[str]]:
    """Everything staged on these places with its judgement, and what could not be asked, for people."""
    needs = needed(journals)
    found: list[Found] = []
    unseen: list[str] = []
    for place in sorted(places):
        try:
            driver = open_driver(*place)
            seen = driver.observe(frozenset())
            if not seen.reachable:
                unseen.append(f"host/{place[0]}: {seen.error}")
                continue
            staged = driver.staged(tuple(pins.get(place, {}).values()))
        except FleetctlError as e:
            unseen.append(f"host/{place[0]}: {e.message}")
            continue
        found += judge(seen, staged, needs.get(place, {}), min_age_s)
    return found, unseen


def remove(
    found: Iterable[Found], open_driver: Callable[[str, str], Driver]
) -> tuple[list[Found], list[str]]:
    """Removes what nothing needs; gives what was removed, and what was not, for people."""
    removed: list[Found] = []
    refused: list[str] = []
    for item in found:
        if item.kept is not None:
            continue
        try:
            needed = open_driver(item.host, item.substrate).unstage(item.artifact)
        except FleetctlError as e:
            refused.append(f"host/{item.host}: {e.message}")
            continue
        if needed is None:
            removed.append(item)
        else:
            refused.append(f"host/{item.host}: {item.artifact.where} stays: {needed}")
    return removed, refused

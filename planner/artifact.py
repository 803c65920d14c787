"""Which artifact of a release a node runs: by substrate, then the host's own architecture, then `any`."""

from __future__ import annotations

import re
from posixpath import basename

from manifests.schema.release import Artifact, Release
from planner.ordered import built
from planner.placement import Placed
from planner.situation import Findings, Situation
from planner.spec import ArtifactPin

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


def select(situation: Situation, findings: Findings, placed: Placed, release: Release) -> ArtifactPin | None:
    """The artifact for this node's host; None, with a refusal, when the release has none for it."""
    substrate = placed.group.substrate
    seen = situation.places.get((placed.host, substrate))
    arch = seen.arch if seen is not None else None
    offered = [a for a in release.artifacts if a.substrate == substrate]
    chosen = _choose(offered, arch, placed)
    if chosen is not None:
        return built(
            ArtifactPin,
            {
                "arch": chosen.arch,
                "digest": chosen.digest,
                "name": file_name(chosen.source),
                "source": chosen.source,
            },
        )
    name = f"{release.product} {release.version}"
    key = ("Release", f"{release.product}@{release.version}")
    where = situation.place_in(key, ("artifacts",))
    if arch is None and offered:
        findings.refuse(
            "artifact.unknown-architecture",
            "The host's architecture is not known",
            f"{name} has artifacts for {_list(offered)}, and {placed.host} did not say what it is",
            place=where,
            hint=f"make {placed.host} reachable, or add an artifact with arch: any",
        )
    else:
        found = f"only {_list(offered)}" if offered else f"none for substrate {substrate}"
        findings.refuse(
            "artifact.none",
            "No artifact for this host",
            f"{placed.host} is {arch or 'of unknown architecture'} and group {placed.group.name} runs on "
            f"{substrate}; {name} has {found}",
            place=where,
            hint=f"add an artifact with substrate: {substrate} and arch: {arch or 'any'}",
        )
    return None


def _choose(offered: list[Artifact], arch: str | None, placed: Placed) -> Artifact | None:
    if arch is None:
        # A host that does not answer keeps what it has, or takes what runs anywhere.
        kept = placed.recorded.spec.artifact.arch if placed.recorded and placed.recorded.spec else "any"
        arch = kept
    for wanted in (arch, "any"):
        for artifact in offered:
            if artifact.arch == wanted:
                return artifact
    return None


def file_name(source: str) -> str:
    """The artifact's file name on a host: the last part of a path or URL, or an image's name."""
    tail = source.partition("@")[0] if "@sha256:" in source else source.partition("?")[0].partition("#")[0]
    return _UNSAFE.sub("_", basename(tail.rstrip("/"))) or "artifact"


def _list(offered: list[Artifact]) -> str:
    return ", ".join(f"{a.substrate}/{a.arch}" for a in offered)

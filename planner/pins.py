"""The pins that moved between two sets of manifests: what is asked for, and which bytes a name stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from manifests.diagnostics import Span
from manifests.manifest import Manifests, Path
from manifests.schema.domain import PinnedFile
from manifests.schema.fleet import Fleet, Group, ReleasePin
from manifests.schema.release import Release


@dataclass(frozen=True, slots=True)
class BytesRow:
    """The digests of one artifact of a release, `substrate/arch`, and of the release that takes its place."""

    artifact: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pin that moved. `kind`: `release` is a release that fleets, groups or nodes (`owners`) go to, `artifact`
    the bytes of a release that keeps its name, `file` another file that is pinned by its digest.

    `before` and `after` are versions or digests; None where there is no such artifact. `artifacts` has, for a
    release, what the versions stand for.
    """

    kind: Literal["release", "artifact", "file"]
    what: str
    before: str | None
    after: str | None
    owners: tuple[str, ...]
    place: Span | None
    artifacts: tuple[BytesRow, ...] = ()


def pins(base: Manifests, head: Manifests) -> tuple[PinRow, ...]:
    """The pins that moved: releases that are asked for, bytes under a name that stayed, other pinned files."""
    return (*_artifacts(base, head), *_files(base, head), *_releases(base, head))


def _releases(base: Manifests, head: Manifests) -> Iterator[PinRow]:
    moved: dict[tuple[ReleasePin, ReleasePin], list[tuple[str, Span | None]]] = {}
    for fleet in head.fleets.values():
        old = base.fleets.get(fleet.name)
        if old is None:
            continue
        known = {owner: pin for owner, pin, _ in _pinned(old)}
        for owner, pin, path in _pinned(fleet):
            was = known.get(owner)
            if was is not None and was != pin:
                place = head.where(("Fleet", fleet.name), path)
                moved.setdefault((was, pin), []).append((owner, place))
    for (was, pin), owners in moved.items():
        what = pin.product if was.product == pin.product else f"{was.product} -> {pin.product}"
        names = tuple(owner for owner, _ in owners)
        old_release = base.releases.get((was.product, was.version))
        before = {} if old_release is None else _digests(old_release)
        new_release = head.releases.get((pin.product, pin.version))
        after = {} if new_release is None else _digests(new_release)
        rows = tuple(BytesRow(a, before.get(a), after.get(a)) for a in sorted(before.keys() | after.keys()))
        yield PinRow("release", what, was.version, pin.version, names, owners[0][1], rows)


def _pinned(fleet: Fleet) -> Iterator[tuple[str, ReleasePin, Path]]:
    yield f"fleet/{fleet.name}", fleet.release, ("release", "version")
    for i, group in enumerate(fleet.groups):
        if group.release is not None:
            yield f"group/{fleet.name}/{group.name}", group.release, ("groups", i, "release", "version")
        for j, node in enumerate(group.nodes or ()):
            if node.release is not None:
                path = ("groups", i, "nodes", j, "release", "version")
                yield f"node/{fleet.name}/{node.name}", node.release, path


def _artifacts(base: Manifests, head: Manifests) -> Iterator[PinRow]:
    for key, release in head.releases.items():
        old = base.releases.get(key)
        if old is None or old.artifacts == release.artifacts:
            continue
        before, after = _digests(old), _digests(release)
        for place in sorted(before.keys() | after.keys()):
            was, now = before.get(place), after.get(place)
            if was != now:
                yield PinRow(
                    "artifact", f"{release.product} {release.version} {place}", was, now, (),
                    artifact_place(head, release, place),
                )  # fmt: skip


def _digests(release: Release) -> dict[str, str]:
    return {f"{a.substrate}/{a.arch}": a.digest for a in release.artifacts}


def artifact_place(manifests: Manifests, release: Release, place: str) -> Span | None:
    """Where the digest of a release's artifact for `substrate/arch` is written."""
    key = ("Release", f"{release.product}@{release.version}")
    for i, artifact in enumerate(release.artifacts):
        if f"{artifact.substrate}/{artifact.arch}" == place:
            return manifests.where(key, ("artifacts", i, "digest"))
    return manifests.where(key, ("artifacts",))


def _files(base: Manifests, head: Manifests) -> Iterator[PinRow]:
    for fleet in head.fleets.values():
        old = base.fleets.get(fleet.name)
        groups = {} if old is None else {g.name: g for g in old.groups}
        for i, group in enumerate(fleet.groups):
            before = _domain_files(groups[group.name]) if group.name in groups else {}
            for path, pin in _domain_files(group).items():
                was = before.get(path)
                if was is not None and was.digest != pin.digest:
                    what = f"group/{fleet.name}/{group.name} {'.'.join(path)}"
                    place = head.where(("Fleet", fleet.name), ("groups", i, "domain", *path, "digest"))
                    yield PinRow("file", what, was.digest, pin.digest, (), place)


def _domain_files(group: Group) -> dict[tuple[str, ...], PinnedFile]:
    if group.domain is None:
        return {}
    boot = group.domain.boot
    found: dict[tuple[str, ...], PinnedFile | None] = {
        ("boot", "disk"): boot.disk,
        ("boot", "kernel"): boot.kernel,
        ("boot", "initrd"): boot.initrd,
        ("template",): group.domain.template,
    }
    return {path: pin for path, pin in found.items() if pin is not None}

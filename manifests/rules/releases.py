"""Releases and the pins that ask for them: they exist, have bytes for the substrate, and pin them."""

from __future__ import annotations

import re

from manifests.digest import is_digest
from manifests.manifest import Path
from manifests.rules.review import Review, fleet_key, listed
from manifests.schema.fleet import Fleet, Group, ReleasePin
from manifests.schema.release import Artifact, Release
from manifests.suggest import did_you_mean
from manifests.version import parse

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def check(review: Review) -> None:
    """Every rule about releases and pins."""
    for release in review.manifests.releases.values():
        _artifacts(review, release)
    _twins(review)
    for fleet in review.manifests.fleets.values():
        _pins(review, fleet)


def _pins(review: Review, fleet: Fleet) -> None:
    for i, group in enumerate(fleet.groups):
        pin, path = (
            (fleet.release, ("release",))
            if group.release is None
            else (group.release, ("groups", i, "release"))
        )
        _pin(review, fleet, group, pin, path)
        for j, node in enumerate(group.nodes or ()):
            if node.release is not None:
                _pin(review, fleet, group, node.release, ("groups", i, "nodes", j, "release"))


def _pin(review: Review, fleet: Fleet, group: Group, pin: ReleasePin, path: Path) -> None:
    key = fleet_key(fleet)
    if pin.product != fleet.release.product:
        review.error(
            "release.other-product",
            "A fleet has nodes of one product",
            f"The fleet runs {fleet.release.product}, and this pins {pin.product}.",
            key,
            (*path, "product"),
            "make it a fleet of its own",
        )
        return
    release = review.manifests.releases.get((pin.product, pin.version))
    if release is None:
        if "Release" in review.incomplete:
            return
        versions = [v for p, v in review.manifests.releases if p == pin.product]
        products = {p for p, _ in review.manifests.releases}
        review.error(
            "release.unknown",
            "No such release",
            f"No document of kind Release is {pin.product} {pin.version}; of {pin.product} there are {listed(versions)}.",
            key,
            (*path, "version") if versions else (*path, "product"),
            did_you_mean(pin.version, versions)
            if versions
            else did_you_mean(pin.product, products) or "add a document of kind Release",
        )
    elif not any(a.substrate == group.substrate for a in release.artifacts):
        review.error(
            "release.no-artifact",
            "A release has nothing for a group's substrate",
            f"Group {group.name} is on {group.substrate}, and {pin.product} {pin.version} has artifacts for "
            f"{listed({a.substrate for a in release.artifacts})}.",
            key,
            path,
            f"add an artifact with `substrate: {group.substrate}` to the release",
        )


def _artifacts(review: Review, release: Release) -> None:
    key = ("Release", f"{release.product}@{release.version}")
    seen: dict[tuple[str, str], int] = {}
    for i, artifact in enumerate(release.artifacts):
        first = seen.setdefault((artifact.substrate, artifact.arch), i)
        if first != i:
            review.error(
                "artifact.duplicate",
                "Two artifacts of a release are for the same place",
                f"{artifact.substrate}, {artifact.arch} also stands at {review.place(key, ('artifacts', first))}; "
                "nothing says which one would run.",
                key,
                ("artifacts", i),
                "remove one, or give them different `arch`",
            )
        problem = _image(artifact) if artifact.is_image else _source(artifact)
        if problem is not None:
            review.error(*problem, key, ("artifacts", i, "source"), _source_hint(artifact))


def _source(artifact: Artifact) -> tuple[str, str, str] | None:
    match = _SCHEME.match(artifact.source)
    if match is None or match[1] in ("https", "s3"):
        return None
    return (
        "artifact.source",
        "An artifact's source cannot be used",
        f"{match[1]}:// is not fetched; a source is a path beside the manifest, an https:// URL, or s3://BUCKET/KEY.",
    )


def _image(artifact: Artifact) -> tuple[str, str, str] | None:
    name, at, digest = artifact.source.rpartition("@")
    if not at or not name or not is_digest(digest):
        return (
            "artifact.unpinned-image",
            "An image is not pinned",
            f"{artifact.source} names whatever is there today; a tag can be moved to other bytes.",
        )
    if digest != artifact.digest:
        return (
            "artifact.digest-differs",
            "An image's digest is not the artifact's",
            f"`source` pins {digest}, and `digest` is {artifact.digest}.",
        )
    return None


def _source_hint(artifact: Artifact) -> str:
    if artifact.substrate == "docker":
        name = artifact.source.partition("@")[0]
        return f"write {name}@{artifact.digest}"
    return "use https:// or s3://, or download it and name the file"


def _twins(review: Review) -> None:
    """Two versions that differ by a leading v only are one release to a reader, and two to every comparison."""
    by_number: dict[tuple[str, str], Release] = {}
    for release in review.manifests.releases.values():
        number = (release.product, str(parse(release.version)))
        other = by_number.setdefault(number, release)
        if other is not release:
            review.warn(
                "release.twins",
                "Two releases differ only in how the version is written",
                f"{release.version} and {other.version} of {release.product} are different releases here.",
                ("Release", f"{release.product}@{release.version}"),
                ("version",),
                "write versions of a product in one way",
            )

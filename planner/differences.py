"""What two sets of manifests differ in, document by document: keys, pins and references to secrets.

A plan says what becomes of nodes; this says what was written differently, also where no node is touched
(a budget, a pair, a host's address).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from manifests.diagnostics import Span
from manifests.manifest import SHIPPED, Key, Manifests, Path
from manifests.schema.base import SecretValue
from manifests.schema.domain import PinnedFile
from manifests.schema.fleet import EnvVar, Fleet, Group, Process, ProcessOverride, ReleasePin
from manifests.schema.release import Release

# Deeper keys say less than the one above them.
DEPTH_MAX = 5


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document that was added, removed, or is written differently; `keys` are where, dotted."""

    kind: str
    name: str
    change: Literal["added", "removed", "changed"]
    keys: tuple[str, ...]
    place: Span | None


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


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A reference to a secret that was not there before; `used_by` is the fleet or host, `field` the key."""

    reference: str
    used_by: str
    field: str
    place: Span | None


def documents(base: Manifests, head: Manifests) -> tuple[DocumentRow, ...]:
    """Every document that differs, by kind and name; those that ship with the program are not compared."""
    before, after = dict(_documents(base)), dict(_documents(head))
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        kind, name = key
        if new is None:
            found.append(DocumentRow(kind, name, "removed", (), None))
        elif old is None:
            found.append(DocumentRow(kind, name, "added", (), head.where(key, ())))
        else:
            paths = [tuple(path) for path in _different(old, new, ())]
            keys = tuple(dict.fromkeys(_dotted(new, path) for path in paths))
            found.append(DocumentRow(kind, name, "changed", keys, head.where(key, paths[0] if paths else ())))
    return tuple(found)


def _documents(manifests: Manifests) -> Iterator[tuple[Key, BaseModel]]:
    for fleet in manifests.fleets.values():
        yield ("Fleet", fleet.name), fleet
    for host in manifests.hosts.values():
        # This machine is always there; only what somebody wrote of it is a document.
        if manifests.where(("Host", host.name), ()) is not None:
            yield ("Host", host.name), host
    for release in manifests.releases.values():
        yield ("Release", f"{release.product}@{release.version}"), release
    numbers: dict[str, int] = {}
    for table in manifests.compatibility:
        number = numbers[table.product] = numbers.get(table.product, -1) + 1
        key = ("Compatibility", f"{table.product}#{number}")
        span = manifests.where(key, ("pairs", 0))
        if span is None or not span.file.startswith(SHIPPED):
            yield key, table


def _different(old: Any, new: Any, path: Path) -> Iterator[Path]:
    """The key paths, in the new document, at which two values differ."""
    if old == new:
        return
    if len(path) < DEPTH_MAX:
        if isinstance(old, BaseModel) and type(old) is type(new):
            for name, info in type(new).model_fields.items():
                yield from _different(getattr(old, name), getattr(new, name), (*path, info.alias or name))
            return
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for name in [*new, *(n for n in old if n not in new)]:
                yield from _different(old.get(name), new.get(name), (*path, name))
            return
        if _named(old) and _named(new):
            known = {item.name: item for item in old}
            for i, item in enumerate(new):
                yield from _different(known.pop(item.name, None), item, (*path, i))
            if known or not new:
                yield path
            return
    yield path


def _named(value: Any) -> bool:
    """Whether it is a list whose items are known by name, not by their place in it."""
    return isinstance(value, tuple) and all(isinstance(getattr(item, "name", None), str) for item in value)


def _dotted(document: Any, path: Path) -> str:
    """A key path as people write it, a named item by its name: `groups.web.count`."""
    words = []
    value = document
    for part in path:
        if isinstance(part, int):
            value = value[part]
            words.append(str(getattr(value, "name", part)))
            continue
        words.append(part)
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return ".".join(words)


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


def secrets(base: Manifests, head: Manifests) -> tuple[SecretRow, ...]:
    """The references to secrets that a fleet or host did not have before, each once."""
    known = {(owner, reference) for owner, reference, _, _ in _references(base)}
    found: dict[tuple[str, str], SecretRow] = {}
    for owner, reference, key, path in _references(head):
        if (owner, reference) not in known and (owner, reference) not in found:
            field = ".".join(str(p) for p in path if isinstance(p, str) and p not in ("secret", "value"))
            found[owner, reference] = SecretRow(reference, owner, field, head.where(key, path))
    return tuple(found.values())


def _references(manifests: Manifests) -> Iterator[tuple[str, str, Key, Path]]:
    for fleet in manifests.fleets.values():
        owner, key = f"fleet/{fleet.name}", ("Fleet", fleet.name)
        for i, group in enumerate(fleet.groups):
            for path, reference in _of_process(group.process, ("groups", i, "process")):
                yield owner, reference, key, path
            for j, node in enumerate(group.nodes or ()):
                if node.process is not None:
                    of = ("groups", i, "nodes", j, "process")
                    for path, reference in _of_process(node.process, of):
                        yield owner, reference, key, path
    for host in manifests.hosts.values():
        become = host.ssh.become if host.ssh is not None else None
        if become is not None and become.password is not None:
            path = ("ssh", "become", "password", "secret")
            yield f"host/{host.name}", become.password.secret, ("Host", host.name), path


def _of_process(process: Process | ProcessOverride, of: Path) -> Iterator[tuple[Path, str]]:
    for name, given in process.env.items():
        if isinstance(given, EnvVar):
            if isinstance(given.value, SecretValue):
                yield (*of, "env", name, "value", "secret"), given.value.secret
        elif isinstance(given, SecretValue):
            yield (*of, "env", name, "secret"), given.secret
    for i, file in enumerate(process.files):
        if file.secret is not None:
            yield (*of, "files", i, "secret"), file.secret

"""Manifest documents for things that run already, and what becomes of each when it is made a node. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import basename

from executors.foreign import Foreign
from manifests.errors import FleetctlError
from manifests.formatting import formatted
from manifests.schema.base import API_VERSION
from manifests.version import is_version
from planner.recorded import derive_uid

# A variable of such a name may hold a secret: its value is not written into a file that is shared.
_SECRET = re.compile(r"pass|secret|token|key|credential|private|auth", re.IGNORECASE)
_DOCKER_VOLUME = "fleetctl-{uid}-volume-{name}"


class NotImportable(FleetctlError):
    """What was found cannot be written as a fleet; says why, and what would help."""

    code = "import.refused"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the documents are called: the fleet, its product, and the version where what runs does not say it."""

    fleet: str
    product: str
    version: str | None = None
    group: str = "imported"
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Fate:
    """One thing and the node that it is to become. `steps` are what a person does, in order; `lost` what is not carried over."""

    what: str
    node: str
    steps: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    node: str
    thing: Foreign
    version: str
    port: int | None
    body: str


def documents(things: Sequence[Foreign], wish: Wish) -> tuple[str, tuple[Fate, ...]]:
    """The text of Release and Fleet documents, and the fate of each thing. Raises NotImportable.

    Things with the same settings become one group; the port is written as `{{ node.port }}`, so that
    nodes may differ in it.
    """
    members = [_member(thing, wish) for thing in things]
    names = [m.node for m in members]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise NotImportable(f"two nodes would be called {twice}", hint="import them into fleets of their own")
    releases: dict[str, dict[str, Foreign]] = {}
    for member in members:
        known = releases.setdefault(member.version, {})
        first = known.setdefault(member.thing.substrate, member.thing)
        if first.digest != member.thing.digest:
            raise NotImportable(
                f"{first.name} and {member.thing.name} run other bytes under the same version {member.version}",
                hint="import them apart, each with its own --version",
            )
    versions = list(releases)
    parts = [_release(wish.product, version, list(found.values())) for version, found in releases.items()]
    parts.append(_fleet(wish, members, versions))
    text = "---\n".join(parts)
    return formatted(text.encode(), "the new manifest"), tuple(_fate(m, wish) for m in members)


def _member(thing: Foreign, wish: Wish) -> _Member:
    version = wish.version or thing.version
    if not is_version(version):
        said = f"says {version!r}, which is no exact version" if version else "does not say its version"
        raise NotImportable(f"{thing.name} {said}", hint="say which it is: --version 1.2.3")
    node = re.sub(r"[^a-z0-9]+", "-", thing.name.lower()).strip("-")[:63].strip("-")
    if not node:
        raise NotImportable(f"{thing.name!r} gives no name for a node")
    port = thing.port if wish.port is None else wish.port
    return _Member(node, thing, version, port, _body(thing, port))


def _release(product: str, version: str, things: Sequence[Foreign]) -> str:
    lines = [
        f"api_version: {API_VERSION}",
        "kind: Release",
        f"product: {product}",
        f"version: {_text(version)}",
        "artifacts:",
    ]
    for thing in things:
        lines += [
            f"  - substrate: {thing.substrate}",
            f"    source: {_text(_source(thing))}",
            f"    digest: {_text(thing.digest)}",
        ]
    return "\n".join(lines) + "\n"


def _source(thing: Foreign) -> str:
    return thing.artifact if thing.substrate == "docker" else f"./artifacts/{basename(thing.artifact)}"


def _fleet(wish: Wish, members: Sequence[_Member], versions: Sequence[str]) -> str:
    lines = [
        f"api_version: {API_VERSION}",
        "kind: Fleet",
        f"name: {wish.fleet}",
        f"trust_domain: {wish.fleet}.internal",
        f"release: {{product: {wish.product}, version: {_text(versions[0])}}}",
        "groups:",
    ]
    groups: dict[tuple[str, str, str], list[_Member]] = {}
    for member in members:
        groups.setdefault((member.thing.substrate, member.version, member.body), []).append(member)
    for number, ((substrate, version, body), inside) in enumerate(groups.items(), 1):
        lines += [
            f"  - name: {wish.group}{'' if number == 1 else f'-{number}'}",
            f"    substrate: {substrate}",
        ]
        if version != versions[0]:
            lines.append(f"    release: {{product: {wish.product}, version: {_text(version)}}}")
        lines.append("    nodes:")
        for m in inside:
            port = "" if m.port is None else f", port: {m.port}"
            lines.append(f"      - {{name: {m.node}, host: {m.thing.host}{port}}}")
        lines.append(body)
    lines += [
        "    # Say here how its health is seen: without a probe a node counts as well while it runs.",
        "rollout:",
        "  max_unavailable: 1",
        "  reserve: 0",
    ]
    return "\n".join(lines) + "\n"


def _body(thing: Foreign, port: int | None) -> str:
    """`process:` and `container:` of a group, as lines of its block."""
    words = [_word(word, thing, port) for word in thing.command]
    lines = ["    process:", f"      command: [{', '.join(words)}]"]
    if thing.env:
        lines.append("      env:")
        for name, value in sorted(thing.env.items()):
            secret = f"{{secret: {_text(f'env:{name}')}}}"
            lines.append(f"        {name}: {secret if _SECRET.search(name) else _template(value)}")
    if thing.user is not None:
        lines.append(f"      user: {_text(thing.user)}")
    if thing.limits:
        lines.append(f"      limits: {_flow(dict(thing.limits))}")
    if thing.substrate == "docker":
        settings = {k: v for k, v in thing.settings.items() if v not in ([], None)}
        lines.append("    container:")
        lines += [f"      {key}: {_value(value)}" for key, value in settings.items()]
        if thing.volumes:
            lines.append("      volumes:")
            lines += [
                f"        - {{name: {_volume_name(n)}, path: {_text(path)}}}" for n, path in thing.volumes
            ]
    return "\n".join(lines)


def _word(word: str, thing: Foreign, port: int | None) -> str:
    if thing.substrate != "docker" and word == thing.artifact:
        return _text("{{ artifact.path }}")
    if port is not None and thing.substrate != "docker" and word == str(port):
        return _text("{{ node.port }}")
    return _template(word)


def _fate(member: _Member, wish: Wish) -> Fate:
    thing = member.thing
    uid = derive_uid(wish.fleet, member.node, 0)
    steps, lost = [], list(thing.lost)
    if thing.substrate != "docker":
        steps.append(f"bring {thing.artifact} of host/{thing.host} to ./artifacts/{basename(thing.artifact)}")
    steps.append(f"on {thing.host}: {thing.stop}")
    for name, path in thing.volumes:
        target = _DOCKER_VOLUME.format(uid=uid, name=_volume_name(name))
        steps.append(
            f"on {thing.host}, to keep what is in {path}: docker volume create {target} && "
            f"docker run --rm -v {name}:/from:ro -v {target}:/to busybox cp -a /from/. /to/"
        )
    steps.append(f"fleetctl apply --target node/{wish.fleet}/{member.node}")
    if thing.substrate == "docker":
        steps.append(f"once all is well, on {thing.host}: docker rm {thing.name}")
    secrets = sorted(name for name in thing.env if _SECRET.search(name))
    if secrets:
        lost.append(
            f"the values of {', '.join(secrets)} are not written: they are taken from the environment of fleetctl"
        )
    if member.port is None:
        lost.append("no port is known: give the node one where it listens (--port N)")
    return Fate(thing.name, member.node, tuple(steps), tuple(lost))


def _volume_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-") or "volume"


def _value(value: object) -> str:
    return _text(value) if isinstance(value, str) else _flow(value)


def _flow(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _template(value: str) -> str:
    """A text in which nothing is a template, whatever it holds."""
    return _text(
        value.replace("{{", "{{ '{{' }}").replace("{%", "{{ '{%' }}").replace("{#", "{{ '{#' }}")
        if "{" in value
        else value
    )

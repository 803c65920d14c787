"""The desired nodes: placed, rendered and resolved into full specifications.

What a node shares with others (its group's process, its release, its host) is prepared once in a
`Frame`; per node only what names the node is rendered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manifests.diagnostics import error
from manifests.errors import FleetctlError
from manifests.manifest import Path
from manifests.schema.base import SecretValue
from manifests.schema.fleet import EnvVar, Health, Limits, OnChange, ReleasePin
from planner.artifact import select
from planner.ordered import built, in_order, ordered
from planner.placement import Placed, place
from planner.process import Process, merged
from planner.situation import Findings, Situation
from planner.spec import ArtifactPin, FileSpec, NodeSpec, SecretUse, fields

# Where nodes live when a Host document that was made by a program names no root.
ROOT_DEFAULT = "/var/lib/fleetctl"
_DEFAULTS: dict[str, Any] = {name: field.default for name, field in sorted(NodeSpec.model_fields.items())}
_NO_LIMITS = ordered(Limits())


@dataclass(frozen=True, slots=True)
class Desired:
    """One node as it is wanted. `fields` are its managed fields, flat."""

    placed: Placed
    spec: NodeSpec
    fields: dict[str, str]

    @property
    def name(self) -> str:
        return self.placed.name


@dataclass(slots=True)
class Frame:
    """What nodes of one group, host, release and process have in common."""

    values: dict[str, Any]
    context: dict[str, Any]
    process: Process
    process_path: Path
    health: Health | None
    address: str
    root: str
    data_path: str | None


class _UnrenderableError(Exception):
    """A leaf text could not be rendered; the finding is already noted."""


def desire(situation: Situation, findings: Findings) -> tuple[list[Desired], set[str]]:
    """The fleet's desired nodes in the manifest's order, and the uids of all that have a place.

    What cannot be made is noted in the findings.
    """
    frames: dict[tuple[object, ...], Frame | None] = {}
    out = []
    uids = set()
    for placed in place(situation, findings):
        uids.add(placed.uid)
        node = placed.node
        pin = (node.release if node else None) or placed.group.release or situation.fleet.release
        own = node.name if node is not None and node.process is not None else None
        key = (placed.group_index, placed.host, pin.version, pin.product, own)
        if key in frames:
            frame = frames[key]
        else:
            frame = frames[key] = _frame(situation, findings, placed, pin)
        if frame is None:
            continue
        try:
            spec = _spec(situation, findings, placed, frame)
        except _UnrenderableError:
            continue
        out.append(Desired(placed, spec, fields(spec, situation.secrets)))
    return out, uids


def _frame(situation: Situation, findings: Findings, placed: Placed, pin: ReleasePin) -> Frame | None:
    group, fleet = placed.group, situation.fleet
    release = situation.manifests.releases.get((pin.product, pin.version))
    if release is None:
        path: Path = ("release", "version")
        findings.errors.append(
            error(
                "release.unknown",
                "No such release",
                f"no document of kind Release is {pin.product} {pin.version}",
                span=situation.manifests.where(situation.key, path),
                hint=f"add a document of kind Release with product: {pin.product} and version: {pin.version}",
                path="release.version",
            )
        )
        return None
    artifact = select(situation, findings, placed, release)
    if artifact is None:
        return None
    host = situation.manifests.hosts[placed.host]
    root = host.root or ROOT_DEFAULT
    address = host.address or (host.ssh.address if host.ssh is not None else "127.0.0.1")
    seen = situation.places.get((placed.host, group.substrate))
    process = merged(group.process, placed.node.process if placed.node else None)
    values = dict(_DEFAULTS)
    values.update(
        artifact=artifact,
        commit=release.commit,
        container=None if group.container is None else ordered(group.container),
        data=None if group.data is None else ordered(group.data),
        default_on_change=process.on_change,
        drain=ordered(fleet.rollout.drain),
        host=placed.host,
        limits=_NO_LIMITS if process.limits is None else ordered(process.limits),
        product=release.product,
        protocol=release.protocol,
        reload_signal=process.reload_signal,
        substrate=group.substrate,
        user=process.user,
        version=release.version,
    )
    context = {
        "fleet": {"name": fleet.name, "trust_domain": fleet.trust_domain},
        "group": _known(name=group.name, labels=group.labels, port=group.port),
        "host": _known(
            name=host.name, address=address, labels=host.labels, root=root, arch=seen.arch if seen else None
        ),
        "release": _known(
            product=release.product, version=release.version, commit=release.commit, protocol=release.protocol
        ),
        "artifact": _artifact_context(root, artifact),
        "vars": situation.manifests.vars,
    }
    templated = any(situation.render.needs(text) for text in _health_texts(group.health))
    if not templated:
        values["health"] = ordered(group.health)
    overridden = placed.node is not None and placed.node.process is not None
    return Frame(
        values,
        context,
        process,
        (*placed.path, "process") if overridden else ("groups", placed.group_index, "process"),
        group.health if templated else None,
        address,
        root,
        None if group.data is None else group.data.path,
    )


def _spec(situation: Situation, findings: Findings, placed: Placed, frame: Frame) -> NodeSpec:
    node, group = placed.node, placed.group
    labels = group.labels
    address = frame.address
    folder = f"{frame.root}/nodes/{placed.uid}"
    known: dict[str, Any] = {"name": placed.name, "uid": placed.uid, "host": placed.host, "dir": folder}
    if node is not None:
        if node.labels:
            labels = {**labels, **node.labels}
        if node.address is not None:
            address = node.address
    known["labels"] = labels
    known["address"] = address
    if placed.port is not None:
        known["port"] = placed.port
    if placed.index is not None:
        known["index"] = placed.index
    if frame.data_path is not None:
        known["data_dir"] = f"{folder}/{frame.data_path}"
    context = {**frame.context, "node": known}

    def render(text: str, *path: str | int, of: Path = frame.process_path) -> str:
        if "{" not in text:
            return text
        try:
            return situation.render(text, context)
        except FleetctlError as e:
            findings.errors.append(
                error(
                    e.code,
                    "A template cannot be rendered",
                    f"{e.message} (for {placed.name})",
                    span=situation.manifests.where(situation.key, (*of, *path)),
                    hint=e.hint,
                    path=".".join(map(str, (*of, *path))),
                )
            )
            raise _UnrenderableError from e

    process = frame.process
    on_change: dict[str, OnChange] = {}
    values = dict(frame.values)
    values["address"] = address
    values["command"] = tuple([render(t, "command", i) for i, t in enumerate(process.command)])
    if process.env:
        env: dict[str, str | SecretUse] = {}
        for name, value in process.env.items():
            if isinstance(value, EnvVar):
                on_change[f"env.{name}"] = value.on_change
                value = value.value
            env[name] = (
                SecretUse(secret=value.secret)
                if isinstance(value, SecretValue)
                else render(value, "env", name)
            )
        values["env"] = env
    if process.files:
        values["files"] = _files(situation, findings, frame, render, on_change)
    if frame.health is not None:
        values["health"] = _health(frame.health, render, ("groups", placed.group_index, "health"))
    if labels:
        values["labels"] = in_order(labels)
    if on_change:
        values["on_change"] = in_order(on_change)
    values["port"] = placed.port
    return built(NodeSpec, values)


def _files(
    situation: Situation,
    findings: Findings,
    frame: Frame,
    render: Callable[..., str],
    on_change: dict[str, OnChange],
) -> tuple[FileSpec, ...]:
    out = []
    for i, file in enumerate(frame.process.files):
        path = render(file.path, "files", i, "path")
        if file.on_change is not None:
            on_change[f"files.{path}"] = file.on_change
        digest = None
        if file.source is not None:
            digest = situation.manifests.digests.get(file.source)
            if digest is None:
                where = (*frame.process_path, "files", i, "source")
                findings.errors.append(
                    error(
                        "file.unread",
                        "The file's bytes are not known",
                        f"{file.source} was not read when the manifests were",
                        span=situation.manifests.where(situation.key, where),
                        path=".".join(map(str, where)),
                    )
                )
                raise _UnrenderableError
        out.append(
            FileSpec(
                path=path,
                content=None if file.content is None else render(file.content, "files", i, "content"),
                source=file.source,
                digest=digest,
                secret=file.secret,
                mode=file.mode,
            )
        )
    return tuple(out)


def _health_texts(health: Health) -> list[str]:
    texts = [health.http.path] if health.http is not None else []
    return texts + (list(health.command.command) if health.command is not None else [])


def _health(health: Health, render: Callable[..., str], of: Path) -> Health:
    update: dict[str, Any] = {}
    if health.http is not None:
        path = render(health.http.path, "http", "path", of=of)
        update["http"] = health.http.model_copy(update={"path": path})
    if health.command is not None:
        command = tuple(
            render(t, "command", "command", i, of=of) for i, t in enumerate(health.command.command)
        )
        update["command"] = health.command.model_copy(update={"command": command})
    return ordered(health.model_copy(update=update))


def _artifact_context(root: str, artifact: ArtifactPin) -> dict[str, Any]:
    return {
        "path": artifact_path(root, artifact),
        "digest": artifact.digest,
        "name": artifact.name,
        "source": artifact.source,
        "arch": artifact.arch,
    }


def artifact_path(root: str, artifact: ArtifactPin) -> str:
    """Where an artifact lies on a host: immutable, one place per digest."""
    return f"{root}/artifacts/sha256/{artifact.digest.removeprefix('sha256:')}/{artifact.name}"


def _known(**values: Any) -> dict[str, Any]:
    """What has a value: the others are undefined in a template, and so an error with a place."""
    return {name: value for name, value in values.items() if value is not None}

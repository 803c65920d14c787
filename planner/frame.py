"""What nodes of one group, host, release and process have in common, prepared once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from manifests.diagnostics import error
from manifests.errors import FleetctlError
from manifests.manifest import Path
from manifests.schema.base import SecretValue
from manifests.schema.fleet import EnvVar, File, Health, Limits, OnChange, ReleasePin, Rollout
from manifests.schema.host import Host
from manifests.schema.release import Release
from planner import calls
from planner.artifact import select
from planner.ordered import ordered
from planner.placement import Placed
from planner.process import Process, merged
from planner.situation import Findings, Situation
from planner.spec import ArtifactPin, NodeSpec, SecretUse

# Where nodes live when a Host document that was made by a program names no root.
ROOT_DEFAULT = "/var/lib/fleetctl"
_DEFAULTS: dict[str, Any] = {name: field.default for name, field in sorted(NodeSpec.model_fields.items())}
_NODE = re.compile(r"\{\{ *node\.(name|port|uid|dir|data_dir|host|address) *\}\}")
_NO_LIMITS = ordered(Limits())


@dataclass(slots=True)
class Frame:
    """`values` are the specification's fields that are shared, `context` what templates may name.

    `command` and `env` have each text with whether it is still to be rendered per node: None for no, the
    name for one that is `{{ node.NAME }}` and nothing else, empty for any other template. `on_change` holds
    what single variables lead to. `health` and `rollout` (its drain and hooks) are None where nothing in them is
    a template.
    """

    values: dict[str, Any]
    context: dict[str, Any]
    command: tuple[tuple[str, str | None], ...]
    env: tuple[tuple[str, str | SecretUse, str | None], ...]
    on_change: dict[str, OnChange]
    files: tuple[File, ...]
    process_path: Path
    health: Health | None
    rollout: Rollout | None
    address: str
    root: str
    data_path: str | None


def frame_of(situation: Situation, findings: Findings, placed: Placed, pin: ReleasePin) -> Frame | None:
    """The frame of a node and of its likes; None, with a finding, when there is no release for it."""
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
    process = merged(group.process, placed.node.process if placed.node else None)
    values = _values(situation, placed, release, artifact, process)
    context = _context(situation, placed, release, artifact)
    templated = any("{" in text for text in _health_texts(group.health))
    if not templated:
        values["health"] = ordered(group.health)
    overridden = placed.node is not None and placed.node.process is not None
    env, on_change = _env(situation, process, context)
    return Frame(
        values=values,
        context=context,
        command=tuple(_once(situation, text, context) for text in process.command),
        env=env,
        on_change=on_change,
        files=process.files,
        process_path=(*placed.path, "process") if overridden else ("groups", placed.group_index, "process"),
        health=group.health if templated else None,
        rollout=fleet.rollout if calls.templated(fleet.rollout) else None,
        address=_address(host),
        root=host.root or ROOT_DEFAULT,
        data_path=None if group.data is None else group.data.path,
    )


def _values(
    situation: Situation, placed: Placed, release: Release, artifact: ArtifactPin, process: Process
) -> dict[str, Any]:
    """The specification's fields that nodes share."""
    fleet, group = situation.fleet, placed.group
    values = dict(_DEFAULTS)
    values.update(
        artifact=artifact,
        commit=release.commit,
        container=None if group.container is None else ordered(group.container),
        data=None if group.data is None else ordered(group.data),
        default_on_change=process.on_change,
        domain=None if group.domain is None else ordered(group.domain),
        drain=ordered(fleet.rollout.drain),
        hooks=calls.node_hooks(fleet.rollout.hooks),
        host=placed.host,
        limits=_NO_LIMITS if process.limits is None else ordered(process.limits),
        product=release.product,
        protocol=release.protocol,
        reload_signal=process.reload_signal,
        substrate=group.substrate,
        user=process.user,
        version=release.version,
    )
    return values


def _context(situation: Situation, placed: Placed, release: Release, artifact: ArtifactPin) -> dict[str, Any]:
    """What templates may name, the node apart."""
    fleet, group, host = situation.fleet, placed.group, situation.manifests.hosts[placed.host]
    seen = situation.places.get((placed.host, group.substrate))
    root = host.root or ROOT_DEFAULT
    return {
        "fleet": {"name": fleet.name, "trust_domain": fleet.trust_domain},
        "group": _known(name=group.name, labels=group.labels, port=group.port),
        "host": _known(
            name=host.name,
            address=_address(host),
            labels=host.labels,
            root=root,
            arch=seen.arch if seen else None,
        ),
        "release": _known(
            product=release.product, version=release.version, commit=release.commit, protocol=release.protocol
        ),
        "artifact": _artifact_context(root, artifact),
        "vars": situation.manifests.vars,
    }


def _address(host: Host) -> str:
    return host.address or (host.ssh.address if host.ssh is not None else "127.0.0.1")


def _env(
    situation: Situation, process: Process, context: dict[str, Any]
) -> tuple[tuple[tuple[str, str | SecretUse, str | None], ...], dict[str, OnChange]]:
    env: list[tuple[str, str | SecretUse, str | None]] = []
    on_change: dict[str, OnChange] = {}
    for name, given in process.env.items():
        value = given
        if isinstance(value, EnvVar):
            on_change[f"env.{name}"] = value.on_change
            value = value.value
        if isinstance(value, SecretValue):
            env.append((name, SecretUse(secret=value.secret), None))
        else:
            env.append((name, *_once(situation, value, context)))
    return tuple(env), on_change


def _once(situation: Situation, text: str, context: dict[str, Any]) -> tuple[str, str | None]:
    """The text, and how it is still to be rendered: what does not name the node is rendered here.

    What cannot be rendered is left for the node, whose finding has its name and place.
    """
    if "{" not in text or "node" in text:
        whole = _NODE.fullmatch(text)
        return text, (whole[1] if whole else "") if "{" in text else None
    try:
        return situation.manifests.render(text, context), None
    except FleetctlError:
        return text, ""


def _health_texts(health: Health) -> list[str]:
    texts = [health.http.path] if health.http is not None else []
    return texts + (list(health.command.command) if health.command is not None else [])


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

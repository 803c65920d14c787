"""NodeSpec: everything one node runs with, rendered and resolved; what a plan carries and the ledger keeps.

Nothing of it needs the manifest again. Secrets are references; artifacts are pins. The keys of every
model here are in alphabetical order (see `planner.ordered`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from manifests.digest import digest_of, sha256
from manifests.schema.base import Model
from manifests.schema.container import Container
from manifests.schema.domain import MIB, Domain, PinnedFile
from manifests.schema.fleet import Data, Drain, Health, Hook, Limits, OnChange, Signal
from manifests.schema.release import Architecture, Substrate
from planner.ordered import Sorted, ordered

UNKEYED = "secret:"
"""Stands before a reference in a field whose keyed digest is not known (no key yet, or not resolved)."""
IMAGE_REFERENCE = "@sha256:"
"""What tells `name@sha256:…`, an image in a registry, from the path or URL of a file."""
RELEASE_FIELDS = frozenset({"release.version", "artifact.digest"})
"""The managed fields that say what runs, apart from how."""
CONTAINER_DIR = "/fleetctl"
"""The node's folder inside its container; on a host it is below the host's root."""


class SecretUse(Model):
    """A value that is a reference (`env:NAME`, `file:PATH`), resolved by the driver's caller when used."""

    secret: str


class ArtifactPin(Model):
    """The bytes that run: where they come from (absolute path, https URL, image reference) and their sha256 pin.

    `name` is the file's name on the host, part of its immutable path.
    """

    arch: Architecture = "any"
    digest: str
    name: str
    source: str

    @property
    def in_registry(self) -> bool:
        """Whether it is an image that an engine pulls by its digest; else its bytes are a file."""
        return IMAGE_REFERENCE in self.source


class FileSpec(Model):
    """A file of the node. `path` is absolute or relative to the node's folder; exactly one of the sources is set.

    `source` is an absolute path on the controller and `digest` the pin of its bytes when the plan was made.
    """

    content: str | None = None
    digest: str | None = None
    mode: str = "0644"
    path: str
    secret: str | None = None
    source: str | None = None


class NodeHooks(Model):
    """The hooks around one node's change, rendered."""

    backup: tuple[Hook, ...] = ()
    post_start: tuple[Hook, ...] = ()
    pre_drain: tuple[Hook, ...] = ()


class NodeSpec(Model):
    """One node's full specification. `on_change` holds the consequence of single fields that differs from
    `default_on_change`, keyed as in `fields()`.
    """

    address: str
    artifact: ArtifactPin
    command: tuple[str, ...]
    commit: str | None = None
    container: Sorted[Container | None] = None
    data: Sorted[Data | None] = None
    default_on_change: OnChange = "restart"
    domain: Sorted[Domain | None] = None
    drain: Sorted[Drain] = ordered(Drain())
    env: Sorted[dict[str, str | SecretUse]] = {}
    files: tuple[FileSpec, ...] = ()
    health: Sorted[Health] = ordered(Health())
    hooks: Sorted[NodeHooks] = ordered(NodeHooks())
    host: str
    labels: Sorted[dict[str, str]] = {}
    limits: Sorted[Limits] = ordered(Limits())
    on_change: Sorted[dict[str, OnChange]] = {}
    port: int | None = None
    product: str
    protocol: str | None = None
    reload_signal: Signal = "HUP"
    substrate: Substrate
    user: str | None = None
    version: str

    @property
    def identity(self) -> ReleaseIdentity:
        """Version text and digest: what makes two nodes run the same."""
        return ReleaseIdentity(version=self.version, digest=self.artifact.digest)

    @property
    def pins(self) -> tuple[ArtifactPin, ...]:
        """Everything that must be on the host before the node is touched: the artifact first, then a domain's
        other files.
        """
        return (self.artifact,) if self.domain is None else (self.artifact, *_domain_pins(self.domain))


class ReleaseIdentity(Model):
    """A release as identity: equal when text and digest are."""

    digest: str
    version: str


def hook_of(spec: NodeSpec, moment: str, number: int) -> Hook:
    """One hook of a node, by its moment (`backup`, `post_start`, `pre_drain`) and number."""
    found: tuple[Hook, ...] = getattr(spec.hooks, moment)
    return found[number]


def fields(spec: NodeSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    """The managed fields of a node, flat, each as text: what is compared with the observed ones.

    `secrets` maps a reference to the keyed digest of its value; one that is missing is compared by reference.
    Health, drain and hooks are not among them: they are fleetctl's own business and touch no node.
    """
    out = {
        "release.version": spec.version,
        "artifact.digest": spec.artifact.digest,
        "command": "\x00".join(spec.command),
    }
    if spec.port is not None:
        out["port"] = str(spec.port)
    if spec.user is not None:
        out["user"] = spec.user
    if spec.data is not None:
        out["data.path"] = spec.data.path
    limits = spec.limits
    if limits.memory is not None:
        out["limits.memory"] = str(limits.memory)
    if limits.open_files is not None:
        out["limits.open_files"] = str(limits.open_files)
    if limits.processes is not None:
        out["limits.processes"] = str(limits.processes)
    for name, value in spec.env.items():
        out[f"env.{name}"] = value if isinstance(value, str) else _secret_field(value.secret, secrets)
    for file in spec.files:
        if file.secret is not None:
            body = _secret_field(file.secret, secrets)
        elif file.digest is not None:
            body = file.digest
        else:
            body = sha256((file.content or "").encode())
        out[f"files.{file.path}"] = f"{file.mode} {body}"
    out.update(_place_fields(spec))
    return out


def _place_fields(spec: NodeSpec) -> dict[str, str]:
    """What only nodes of one substrate have."""
    if spec.container is not None:
        return _container_fields(spec.container)
    return {} if spec.domain is None else _domain_fields(spec.domain)


def _container_fields(container: Container) -> dict[str, str]:
    """What only containers have, each key by its own name; lists as sets where their order means nothing."""
    values: dict[str, object] = container.model_dump(mode="json")
    values["capabilities"] = sorted(container.capabilities)
    values["tmpfs"] = sorted(container.tmpfs)
    values["volumes"] = sorted(f"{v.name}:{v.path}" for v in container.volumes)
    values.pop("lose_anonymous_volumes")
    return {f"container.{key}": _encode(value) for key, value in values.items()}


def _domain_files(domain: Domain) -> dict[str, PinnedFile]:
    """A domain's own pinned files, by what they are for."""
    boot = domain.boot
    found = {
        "boot.disk": boot.disk,
        "boot.initrd": boot.initrd,
        "boot.kernel": boot.kernel,
        "template": domain.template,
    }
    return {name: pin for name, pin in found.items() if pin is not None}


def _domain_pins(domain: Domain) -> tuple[ArtifactPin, ...]:
    return tuple(
        ArtifactPin(digest=pin.digest, name=name.removeprefix("boot."), source=pin.source)
        for name, pin in _domain_files(domain).items()
    )


def _domain_fields(domain: Domain) -> dict[str, str]:
    """What only virtual machines have, as far as it is part of the domain; the rest is how fleetctl treats it."""
    boot = domain.boot
    out = {f"domain.{name}": pin.digest for name, pin in _domain_files(domain).items()}
    out["domain.memory"] = f"{domain.memory // MIB}MiB"
    out["domain.boot.artifact"] = boot.artifact
    if boot.kernel_args:
        out["domain.boot.kernel_args"] = boot.kernel_args
    if boot.disk_size is not None:
        out["domain.boot.disk_size"] = str(boot.disk_size)
    for name in ("accelerator", "machine", "vcpus"):
        out[f"domain.{name}"] = str(getattr(domain, name))
    for name in ("agent", "autostart", "console_log", "seed"):
        out[f"domain.{name}"] = _encode(getattr(domain, name))
    for i, network in enumerate(domain.networks):
        place = f"network {network.network}" if network.network is not None else f"bridge {network.bridge}"
        out[f"domain.networks.{i}"] = f"{place}, {network.model}"
    for volume in domain.volumes:
        out[f"domain.volumes.{volume.name}"] = str(volume.size)
    return out


def _secret_field(ref: str, secrets: Mapping[str, str]) -> str:
    digest = secrets.get(ref)
    return UNKEYED + ref if digest is None else f"keyed:{digest}"


def config_digest(node_fields: Mapping[str, str]) -> str:
    """The pin of a node's managed fields but its release: sha256 of their canonical JSON.

    The release is compared by itself; and bringing an artifact again mends its bytes without touching the node.
    """
    kept = [(k, v) for k, v in sorted(node_fields.items()) if k not in RELEASE_FIELDS]
    text = "{" + ",".join([f"{_quoted(k)}:{_quoted(v)}" for k, v in kept]) + "}"
    # Only keys past ASCII sort differently in the RFC.
    return sha256(text.encode()) if text.isascii() else digest_of(dict(kept))


_quoted = json.encoder.encode_basestring
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode

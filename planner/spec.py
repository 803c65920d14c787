"""NodeSpec: everything one node runs with, rendered and resolved; what a plan carries and the ledger keeps.

Nothing of it needs the manifest again. Secrets are references; artifacts are pins.
"""

from __future__ import annotations

from collections.abc import Mapping

from manifests.digest import digest_of, sha256
from manifests.schema.base import Model
from manifests.schema.fleet import Data, Drain, Health, Limits, OnChange, Signal
from manifests.schema.release import Architecture, Substrate

UNKEYED = "secret:"
"""Stands before a reference in a field whose keyed digest is not known (no key yet, or not resolved)."""


class SecretUse(Model):
    """A value that is a reference (`env:NAME`, `file:PATH`), resolved by the driver's caller when used."""

    secret: str


class ArtifactPin(Model):
    """The bytes that run: where they come from (absolute path, https URL, image reference) and their sha256 pin.

    `name` is the file's name on the host, part of its immutable path.
    """

    source: str
    digest: str
    name: str
    arch: Architecture = "any"


class FileSpec(Model):
    """A file of the node. `path` is absolute or relative to the node's folder; exactly one of the sources is set.

    `source` is an absolute path on the controller and `digest` the pin of its bytes when the plan was made.
    """

    path: str
    content: str | None = None
    source: str | None = None
    digest: str | None = None
    secret: str | None = None
    mode: str = "0644"


class NodeSpec(Model):
    """One node's full specification. `on_change` holds the consequence of single fields that differs from
    `default_on_change`, keyed as in `fields()`.
    """

    substrate: Substrate
    host: str
    address: str
    port: int | None = None
    labels: dict[str, str] = {}
    product: str
    version: str
    commit: str | None = None
    protocol: str | None = None
    artifact: ArtifactPin
    command: tuple[str, ...]
    env: dict[str, str | SecretUse] = {}
    files: tuple[FileSpec, ...] = ()
    user: str | None = None
    limits: Limits = Limits()
    data: Data | None = None
    health: Health = Health()
    drain: Drain = Drain()
    default_on_change: OnChange = "restart"
    on_change: dict[str, OnChange] = {}
    reload_signal: Signal = "HUP"

    @property
    def identity(self) -> ReleaseIdentity:
        """Version text and digest: what makes two nodes run the same."""
        return ReleaseIdentity(version=self.version, digest=self.artifact.digest)


class ReleaseIdentity(Model):
    """A release as identity: equal when text and digest are."""

    version: str
    digest: str


def fields(spec: NodeSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    """The managed fields of a node, flat, each as text: what is compared with the observed ones.

    `secrets` maps a reference to the keyed digest of its value; one that is missing is compared by reference.
    Health and drain are not among them: they are fleetctl's own business and touch no node.
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
    return out


def _secret_field(ref: str, secrets: Mapping[str, str]) -> str:
    digest = secrets.get(ref)
    return UNKEYED + ref if digest is None else f"keyed:{digest}"


def config_digest(node_fields: Mapping[str, str]) -> str:
    """The pin of a node's managed fields."""
    return digest_of(dict(node_fields))

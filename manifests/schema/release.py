"""kind: Release — one exact version of a product, and its bytes by substrate and architecture."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import Model, Name, Sha256, Text, Version

Substrate = Literal["host", "docker", "qemu"]
Architecture = Literal["any", "x86_64", "aarch64"]


class Artifact(Model):
    """The bytes that run on one substrate and architecture; `digest` is the sha256 of exactly these bytes.

    `source` is a path beside the manifest, an https:// URL, or for docker a `name@sha256:…` reference.
    """

    substrate: Substrate
    arch: Architecture = "any"
    source: Annotated[Text, Field(min_length=1)]
    digest: Sha256


class Release(Model):
    """One exact version of a product. Identity is the version's text together with the digest."""

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Release"]
    product: Name
    version: Version
    commit: Text | None = None
    protocol: Text | None = None
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1)]

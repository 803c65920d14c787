"""kind: Release — one exact version of a product, and its bytes by substrate and architecture."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import Model, Name, NonEmpty, Sha256, Text, Version

Substrate = Literal["host", "docker", "qemu"]
# What tells the file of an image (an archive, or a root file system) from a registry's name for one.
IMAGE_FILES = (".tar", ".tar.gz", ".tgz", ".tar.xz")
Architecture = Literal["any", "x86_64", "aarch64"]


class Artifact(Model):
    """The bytes that run on one substrate and architecture; `digest` is the sha256 of exactly these bytes.

    `source` is a path beside the manifest or an https:// URL; for docker a `name@sha256:…` reference, or the
    file of an image archive or root file system.
    """

    substrate: Substrate
    arch: Architecture = "any"
    source: NonEmpty
    digest: Sha256

    @property
    def is_image(self) -> bool:
        """Whether `source` is a registry's name for an image; else it is a path or a URL of a file."""
        return self.substrate == "docker" and (
            "@" in self.source or not (self.source.endswith(IMAGE_FILES) or "://" in self.source)
        )


class Release(Model):
    """One exact version of a product. Identity is the version's text together with the digest."""

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Release"]
    product: Name
    version: Version
    commit: Text | None = None
    protocol: Text | None = None
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1)]

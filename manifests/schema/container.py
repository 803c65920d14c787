"""`container:` of a group — what only containers have. Safe by default: no capabilities, read-only root."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import NO_TEMPLATE, Model, Name, Port, Text

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00]*$"), NO_TEMPLATE]


class Volume(Model):
    """A named volume of the node, kept when the container is replaced; mounted at `path`."""

    name: Name
    path: AbsolutePath


class LogOptions(Model):
    """The engine's log driver and its options."""

    driver: Text = "json-file"
    options: dict[str, Text] = {"max-size": "10m", "max-file": "3"}


class Container(Model):
    """What only containers have.

    `port` is where the process listens inside (default: the node's port), published at `bind`:node port
    unless `network` is host. `command` of the process is the whole argument list, or follows the image's
    own entry point where `entrypoint` is `image`. Anonymous volumes of an image would be lost at a
    replacement, which is refused unless `lose_anonymous_volumes`.
    """

    network: Text = "bridge"
    port: Port | None = None
    bind: Text = "0.0.0.0"  # noqa: S104 - what docker itself does; narrow it where the host is not trusted ground
    entrypoint: Literal["none", "image"] = "none"
    volumes: tuple[Volume, ...] = ()
    tmpfs: tuple[AbsolutePath, ...] = ()
    read_only: bool = True
    capabilities: tuple[Annotated[str, Field(pattern=r"^[A-Z_]+$"), NO_TEMPLATE], ...] = ()
    init: bool = True
    restart: Literal["no", "on-failure", "always", "unless-stopped"] = "unless-stopped"
    log: LogOptions = LogOptions()
    healthcheck: Literal["image", "none"] = "image"
    lose_anonymous_volumes: bool = False

"""kind: Host — where nodes are placed, and how the place is reached.

`localhost` is always there; a document of that name changes its settings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import DurationMs, Model, Name, Port, Text


class Ssh(Model):
    """How an SSH host is reached."""

    address: Annotated[Text, Field(min_length=1)]
    port: Port = 22
    user: Text | None = None
    identity_file: Text | None = None
    known_hosts: Text | None = None
    connect_timeout: DurationMs = 10_000


class Host(Model):
    """One place for nodes. Without `ssh` it is this machine.

    `address` is where the nodes' ports are reached from the controller (default: 127.0.0.1, or the
    SSH address). `root` is the folder for artifacts, nodes and data; relative ones are relative to
    the manifest file.
    """

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Host"]
    name: Name
    address: Text | None = None
    root: Text | None = None
    labels: dict[str, Text] = {}
    ssh: Ssh | None = None

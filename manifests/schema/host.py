"""kind: Host — where nodes are placed, and how the place is reached.

`localhost` is always there; a document of that name changes its settings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import (
    NO_TEMPLATE,
    DurationMs,
    Labels,
    Model,
    Name,
    NonEmpty,
    Port,
    SecretValue,
    Text,
)


class Become(Model):
    """How commands on the host get another user's rights. Without `password` sudo must not ask for one."""

    method: Literal["sudo"] = "sudo"
    user: Text = "root"
    password: SecretValue | None = None


class Ssh(Model):
    """How an SSH host is reached. What is not said here comes from `config_file` (default ~/.ssh/config).

    `jump` is the chain of hosts to go through, each `[user@]host[:port]`; `sessions_max` is at most the
    server's MaxSessions; `pubkey_algorithms` narrows the signatures that are tried for old servers.
    """

    address: NonEmpty
    port: Port | None = None
    user: Text | None = None
    identity_file: Text | None = None
    jump: tuple[NonEmpty, ...] | None = None
    config_file: Text | None = None
    known_hosts: Text | None = None
    become: Become | None = None
    connect_timeout: DurationMs = 10_000
    sessions_max: Annotated[int, Field(ge=1, le=100)] = 8
    pubkey_algorithms: tuple[Text, ...] | None = None


class Tls(Model):
    """Client certificates for an engine's TCP port: paths of PEM files."""

    ca: Text
    cert: Text
    key: Text


class Docker(Model):
    """The Docker engine of this host: `unix://PATH`, or `tcp://HOST:PORT` with `tls`.

    Together with `ssh` the unix path is one on that host, reached through the SSH connection.
    """

    url: Annotated[str, Field(pattern=r"^(unix:///.+|tcp://.+:[0-9]+)$"), NO_TEMPLATE] = (
        "unix:///var/run/docker.sock"
    )
    tls: Tls | None = None
    timeout: DurationMs = 60_000


class Libvirt(Model):
    """The libvirt of this host: `qemu:///system`, or `test:///default`; `?socket=PATH` names its socket.

    Together with `ssh` the socket is one on that host, reached through the SSH connection. Images, disks and
    console logs are kept in the storage pool `pool`, a folder that is made at `pool_path` when it is missing.
    """

    uri: Annotated[
        str,
        Field(pattern=r"^(qemu(\+unix)?:///(system|session)|test:///default)(\?socket=/.+)?$"),
        NO_TEMPLATE,
    ] = "qemu:///system"
    pool: Name = "fleetctl"
    pool_path: Annotated[str, Field(pattern=r"^/[^\x00]*$"), NO_TEMPLATE] = "/var/lib/libvirt/fleetctl"
    timeout: DurationMs = 30_000


class Host(Model):
    """One place for nodes. Without `ssh` it is this machine.

    `address` is where the nodes' ports are reached from the controller (default: 127.0.0.1, or the
    SSH address). `root` is the folder for artifacts, nodes and data; relative ones are relative to
    the manifest file. `supervisor` keeps the nodes' processes: `process` restarts nothing, `systemd` does.
    """

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Host"]
    name: Name
    address: Text | None = None
    root: Text | None = None
    labels: Labels = {}
    supervisor: Literal["process", "systemd"] = "process"
    ssh: Ssh | None = None
    docker: Docker | None = None
    libvirt: Libvirt | None = None

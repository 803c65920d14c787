"""The shared fleets, each settled and left as it was found, and a way to hosts that only others can reach."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import SUDO_PASSWORD, USER_WITH_PASSWORD, HostLab
from tests.lab.process import Daemon, answers, free_port
from tests.lab.watcher import Endpoint

TUNNEL_TIMEOUT_S = 20.0


@contextlib.contextmanager
def tunnel(hosts: HostLab, name: str, port: int, log: Path) -> Iterator[Endpoint]:
    """A port of a host that cannot be reached from here, brought here by the OpenSSH client."""
    local = free_port()
    argv = hosts.ssh_argv(name)
    options = ["-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{local}:127.0.0.1:{port}"]
    client = Daemon([argv[0], *options, *argv[1:]], log=log)
    try:
        client.wait_ready(lambda: answers("127.0.0.1", local), timeout_s=TUNNEL_TIMEOUT_S)
        yield "127.0.0.1", local
    finally:
        client.stop()


@pytest.fixture(scope="module")
def six(systemd_hosts: HostLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Six hosts with a node each: five reached directly, one through h1; on h2 sudo asks for a password.

    On every second one the node is a unit of systemd, on the others a plain process.
    """
    path = tmp_path_factory.mktemp("six")
    hosts = systemd_hosts
    hosts.write_known_hosts(path / "known_hosts")
    asking = {"user": USER_WITH_PASSWORD, "become": {"password": {"secret": "env:SUDO"}}}
    names = list(hosts.hosts)
    port = 9000
    with tunnel(hosts, "hidden", port + names.index("hidden"), path / "tunnel.log") as place:
        fleet = Fleet(
            path,
            "six",
            [
                {**ssh_host(hosts, name, **(asking if name == "h2" else {})), "supervisor": supervisor}
                for name, supervisor in zip(names, itertools.cycle(["process", "systemd"]), strict=False)
            ],
            [on_hosts("web", names, port)],
            max_unavailable=2,
            secrets={"SUDO": SUDO_PASSWORD},
            places={f"web-{names.index('hidden')}": place},
        )
        try:
            yield fleet
        finally:
            fleet.destroy()


@pytest.fixture(scope="module")
def boxes(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three containers of an engine reached by its Unix socket."""
    path = tmp_path_factory.mktemp("boxes")
    port = free_ports(3)
    fleet = Fleet(path, "boxes", [engine("box", docker_engine.url)], [in_containers("web", ["box"], port, 3)])
    try:
        yield fleet
    finally:
        fleet.destroy()

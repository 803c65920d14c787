"""What becomes of data when a fleet is destroyed, on hosts and in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import ROOT, Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab


@pytest.mark.parametrize("retain", [True, False])
def test_destroy_keeps_or_removes_the_data_of_processes(
    systemd_hosts: HostLab, tmp_path: Path, retain: bool
) -> None:
    systemd_hosts.write_known_hosts(tmp_path / "known_hosts")
    fleet = Fleet(
        tmp_path, "data", [ssh_host(systemd_hosts, "h1")], [on_hosts("d", ["h1"], 9300)], retain=retain
    )
    fleet.apply()
    node = f"{ROOT}/nodes/{fleet.uid('d-0')}"
    systemd_hosts.exec("h1", f"echo precious >{node}/data/kept")
    done = fleet.destroy()
    assert ("its data is removed" in done.out) is not retain, str(done)
    assert set(fleet.ask("/health").values()) == {None}
    left = systemd_hosts.exec("h1", f"cat {node}/data/kept 2>/dev/null; test ! -e {node}/conf")
    assert left == ("precious" if retain else "")


@pytest.mark.parametrize("retain", [True, False])
def test_destroy_keeps_or_removes_the_volumes_of_containers(
    docker_engine: DockerEngine, tmp_path: Path, retain: bool
) -> None:
    groups = [in_containers("d", ["box"], free_ports(1), 1)]
    fleet = Fleet(tmp_path, "data", [engine("box", docker_engine.url)], groups, retain=retain)
    fleet.apply()
    uid = fleet.uid("d-0")
    fleet.destroy()
    named = ("--filter", f"name=fleetctl-{uid}")
    assert docker_engine.out("ps", "-aq", *named) == ""
    left = docker_engine.out("volume", "ls", "-q", *named).split()
    assert left == ([f"fleetctl-{uid}-data"] if retain else [])
    for volume in left:
        docker_engine.docker("volume", "rm", volume)

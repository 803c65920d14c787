"""One fleet with two groups: processes on SSH hosts, and containers. It rolls as one."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab


def test_a_fleet_over_hosts_and_containers_rolls_as_one_within_its_budget(
    systemd_hosts: HostLab, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """Four nodes of two kinds, one of which may be down: the outside client never sees two down together."""
    systemd_hosts.write_known_hosts(tmp_path / "known_hosts")
    hosts = [ssh_host(systemd_hosts, "h1"), ssh_host(systemd_hosts, "h2"), engine("box", docker_engine.url)]
    groups = [on_hosts("plain", ["h1", "h2"], 9500), in_containers("boxed", ["box"], free_ports(2), 2)]
    fleet = Fleet(tmp_path, "both", hosts, groups)
    try:
        fleet.apply()
        assert set(fleet.ask("/version").values()) == {"1.0.0"}
        fleet.want(version="1.1.0")
        assert "Availability: never below 3 of 4 (floor 3, reserve 1)." in fleet.pending()
        with fleet.watch() as watch:
            fleet.apply()
        fleet.kept(watch, 3)
        assert watch.went_down == set(fleet.endpoints), "every node of both groups was replaced"
        assert set(fleet.ask("/version").values()) == {"1.1.0"}
    finally:
        fleet.destroy()

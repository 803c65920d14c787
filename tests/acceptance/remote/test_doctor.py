"""doctor on real SSH hosts, one of them behind another and with a sudo that asks, and on a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.remote.fleet import Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import SUDO_PASSWORD, USER_WITH_PASSWORD, HostLab

pytestmark = pytest.mark.timeout(600)


def test_hosts_are_reached_and_judged(systemd_hosts: HostLab, tmp_path: Path) -> None:
    systemd_hosts.write_known_hosts(tmp_path / "known_hosts")
    (tmp_path / "known_hosts").chmod(0o600)
    asking = {"user": USER_WITH_PASSWORD, "become": {"password": {"secret": "env:SUDO"}}}
    hosts = [
        {**ssh_host(systemd_hosts, "h1"), "supervisor": "systemd"},
        ssh_host(systemd_hosts, "h2", **asking),
        ssh_host(systemd_hosts, "hidden"),
    ]
    fleet = Fleet(
        tmp_path,
        "three",
        hosts,
        [on_hosts("web", ["h1", "h2", "hidden"], 9000)],
        secrets={"SUDO": SUDO_PASSWORD},
    )
    done = fleet.run("doctor", ".")
    for name in ("h1", "h2", "hidden"):
        assert f"host/{name} (host)\n  ok    reach" in done.out, str(done)
    assert "systemd: systemd" in done.out, str(done)
    fleet.secrets.clear()
    refused = fleet.run("doctor", ".")
    assert refused.code == 1 and "host/h2 (host)\n  fail  reach" in refused.out, str(refused)


def test_an_engine_is_reached_and_judged(docker_engine: DockerEngine, tmp_path: Path) -> None:
    fleet = Fleet(
        tmp_path, "boxes", [engine("box", docker_engine.url)], [in_containers("web", ["box"], 9000, 1)]
    )
    done = fleet.run("doctor", ".")
    assert "host/box (docker)\n  ok    reach" in done.out and "engine: Docker " in done.out, str(done)
    away = Fleet(
        tmp_path / "away",
        "boxes",
        [engine("box", "unix:///nowhere.sock")],
        [in_containers("web", ["box"], 9000, 1)],
    ).run("doctor", ".")
    assert away.code == 1 and "start the engine" in away.out, str(away)

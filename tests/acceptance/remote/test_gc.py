"""`fleetctl gc` on an SSH host and a Docker engine: what nothing needs goes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab

pytestmark = pytest.mark.timeout(600)
ARTIFACTS = "/var/lib/fleetctl/artifacts/sha256"
GC = ("gc", ".", "--auto-approve", "--min-age", "0s")


@pytest.fixture
def both(docker_engine: DockerEngine, systemd_hosts: HostLab, tmp_path: Path) -> Iterator[Fleet]:
    """One node on a host, one in a container."""
    systemd_hosts.write_known_hosts(tmp_path / "known_hosts")
    # Other tests of this process leave images on the engine that bear names; what others call something stays.
    forms = "{{.Repository}}:{{.Tag}} {{.Repository}}@{{.Digest}}"
    for name in docker_engine.out("images", "--digests", "--format", forms).split():
        if "<none>" not in name:
            docker_engine.docker("rmi", name, check=False)
    fleet = Fleet(
        tmp_path,
        "collected",
        [ssh_host(systemd_hosts, "h5"), engine("box", docker_engine.url)],
        [on_hosts("unit", ["h5"], 9700), in_containers("web", ["box"], free_ports(1), 1)],
    )
    try:
        yield fleet
    finally:
        fleet.destroy()


def _on_host(hosts: HostLab) -> set[str]:
    listed = hosts.exec("h5", f"ls {ARTIFACTS} 2>/dev/null || true").split()
    return set(listed)


def test_ways_back_stay_and_what_nothing_needs_goes(
    both: Fleet, docker_engine: DockerEngine, systemd_hosts: HostLab
) -> None:
    strangers = _on_host(systemd_hosts)
    both.want(version="1.0.0").apply()
    old_image = docker_engine.inspect(f"fleetctl-{both.uid('web-0')}")["Image"]
    both.want(version="1.1.0").apply()
    new_image = docker_engine.inspect(f"fleetctl-{both.uid('web-0')}")["Image"]
    ours = _on_host(systemd_hosts) - strangers
    assert len(ours) == 2

    kept = both.run(*GC)
    assert "could go back to it" in kept.out, str(kept)
    assert ours <= _on_host(systemd_hosts)
    assert {old_image, new_image} <= set(docker_engine.out("images", "-q", "--no-trunc").split())

    both.destroy()
    # Somebody else has made a container from one of the images, and left a file among the artifacts.
    stranger = docker_engine.out("create", old_image, "/bin/node")
    systemd_hosts.exec("h5", f"mkdir -p {ARTIFACTS}/notes && echo mine > {ARTIFACTS}/notes/README")
    try:
        gone = both.run(*GC)
        assert gone.code == 0, str(gone)
        images = set(docker_engine.out("images", "-q", "--no-trunc").split())
        assert old_image in images, "a container of somebody else is made from it"
        assert new_image not in images
        assert not ours & _on_host(systemd_hosts)
        assert systemd_hosts.exec("h5", f"cat {ARTIFACTS}/notes/README").strip() == "mine"
    finally:
        docker_engine.docker("rm", stranger)
        systemd_hosts.exec("h5", f"rm -r {ARTIFACTS}/notes")
    last = both.run(*GC)
    assert last.code == 0, str(last)
    assert old_image not in set(docker_engine.out("images", "-q", "--no-trunc").split())

"""A libvirt on another machine, and a fleet whose nodes are guests, containers and processes at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.qemu.fleet import VERSIONS, Document, Guests, local_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.images import NODE_PORT, NODE_SCRIPT, node_image
from tests.lab.libvirt_lab import LibvirtLab
from tests.lab.process import free_port
from tests.lab.sshd import LoopbackSshd

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
# Emulated guests boot in seconds when the machine is idle, and in many when it is not.
pytestmark = pytest.mark.timeout(500)
ELSEWHERE = "127.77.0.2"


@pytest.fixture
def sshd(libvirt_lab: LibvirtLab) -> Iterator[LoopbackSshd]:
    """An sshd on another loopback address, whose logins see the private libvirt at its usual place."""
    with LoopbackSshd(users=1, mounts_of=libvirt_lab.holder_pid) as server:
        yield server


def ssh_to(server: LoopbackSshd, path: Path) -> Document:
    path.mkdir(parents=True, exist_ok=True)
    server.write_known_hosts(path / "known_hosts", ELSEWHERE)
    return {
        "address": ELSEWHERE,
        "port": server.port,
        "user": server.user,
        "identity_file": str(server.key),
        "known_hosts": "./known_hosts",
        "config_file": "/dev/null",
    }


def test_a_libvirt_behind_ssh_serves_and_gives_all_volumes_back(
    libvirt_lab: LibvirtLab, sshd: LoopbackSshd, tmp_path: Path
) -> None:
    """Its socket, the uploads and the probes go through our own connection; nothing but SSH is open there."""
    host = {
        "kind": "Host",
        "name": "far",
        "ssh": ssh_to(sshd, tmp_path),
        "libvirt": {"uri": "qemu:///system"},
    }
    fleet = Guests(tmp_path, "far", libvirt_lab, host, first=40, count=1, retain=False)
    try:
        fleet.apply()
        assert fleet.ask("/starts") == {"guest-0": "1"}
        uid = fleet.nodes()["guest-0"]["uid"]
        assert uid in libvirt_lab.out("list", "--name")
    finally:
        done = fleet.destroy()
    assert "its data is removed" in done.out, str(done)
    libvirt_lab.virsh("pool-refresh", "fleetctl")
    assert uid not in libvirt_lab.out("vol-list", "fleetctl")
    assert uid not in libvirt_lab.out("list", "--all", "--name")


def test_one_fleet_over_processes_containers_and_guests_rolls_as_one(
    libvirt_lab: LibvirtLab, loopback_sshd: LoopbackSshd, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """One budget over all substrates: an outside client never sees more than one node of the three down."""
    artifacts: dict[str, list[Document]] = {}
    for version in VERSIONS:
        script = NODE_SCRIPT.read_bytes() + f"\n# {version}\n".encode()
        image = node_image(version).archive(f"node:{version}")
        pins = []
        for substrate, name, data in (("host", f"{version}.sh", script), ("docker", f"{version}.tar", image)):
            (tmp_path / name).write_bytes(data)
            pins.append(
                {
                    "substrate": substrate,
                    "source": f"./{name}",
                    "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
                }
            )
        artifacts[version] = pins
    process_port, container_port = free_port(), free_port()
    root = f"/tmp/{loopback_sshd.user}-mixed"
    health = {"http": {"path": "/health"}, "interval": "200ms", "deadline": "60s"}
    groups: list[Document] = [
        {
            "name": "process",
            "count": 1,
            "substrate": "host",
            "hosts": ["far"],
            "port": process_port,
            "process": {
                "command": ["/bin/sh", "{{ artifact.path }}"],
                "env": {
                    "PORT": "{{ node.port }}",
                    "VERSION": "{{ release.version }}",
                    "WWW": "{{ node.dir }}/www",
                },
            },
            "health": health,
        },
        {
            "name": "container",
            "count": 1,
            "substrate": "docker",
            "hosts": ["engine"],
            "port": container_port,
            "process": {"command": ["/bin/node"]},
            "container": {"port": NODE_PORT, "bind": "127.0.0.1", "tmpfs": ["/tmp"]},
            "health": health,
        },
    ]
    hosts: list[Document] = [
        {"kind": "Host", "name": "far", "root": root, "ssh": ssh_to(loopback_sshd, tmp_path)},
        {"kind": "Host", "name": "engine", "docker": {"url": docker_engine.url}},
    ]
    fleet = Guests(
        tmp_path,
        "mixed",
        libvirt_lab,
        local_host(libvirt_lab),
        first=50,
        count=1,
        hosts=hosts,
        groups=groups,
        artifacts=artifacts,
        places={
            "process-0": (ELSEWHERE, process_port),
            "container-0": ("127.0.0.1", container_port),
        },
        retain=False,
        rollout={"reserve": 1},
    )
    try:
        fleet.apply()
        assert set(fleet.ask("/version").values()) == {"1.0.0"}
        fleet.want(version="1.1.0")
        with fleet.watch() as watch:
            fleet.apply()
        assert watch.fewest_available == 2, watch.sightings
        assert fleet.ask("/version") == {"guest-0": "1.1.0", "process-0": "1.1.0", "container-0": "1.1.0"}
    finally:
        fleet.destroy()

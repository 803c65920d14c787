"""pytest fixtures over the laboratory: started once per run, stopped at its end, skipped with one line each.

The root conftest makes them known with `pytest_plugins = ["tests.lab.fixtures"]`. Tests that change or break a
system for good start one of their own instead (`with DockerEngine() as engine: …`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.lab import docker_engine as docker_lab
from tests.lab import guest_image, host_image, images
from tests.lab import libvirt_lab as libvirt_of_lab
from tests.lab import postgres as postgres_lab
from tests.lab import registry as registry_lab
from tests.lab import s3 as s3_lab
from tests.lab import sshd as sshd_lab
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab
from tests.lab.libvirt_lab import LibvirtLab
from tests.lab.postgres import Postgres
from tests.lab.process import missing_programs
from tests.lab.registry import Registry
from tests.lab.s3 import S3, s3_server
from tests.lab.sshd import LoopbackSshd

SYSTEMD_HOSTS = 5
FIRST_USE_TIMEOUT_S = 900
"""A test that first asks for whole hosts may have to wait until their tree is built (a minute or two)."""

MARKERS = {
    "docker_engine": "docker",
    "hosts_engine": "systemd",
    "systemd_hosts": "systemd",
    "libvirt_lab": "libvirt",
    "loopback_sshd": "ssh",
    "registry": "docker",
    "registry_with_login": "docker",
    "s3": "s3",
    "postgres": "postgres",
}
"""Which marker a test gets from a fixture it uses, so that `-m 'not docker'` and the like need no second list."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the systems they use, and give the first use of whole hosts the time to build them."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        for marker in sorted({MARKERS[name] for name in used & MARKERS.keys()}):
            item.add_marker(getattr(pytest.mark, marker))
        if used & {"systemd_hosts", "hosts_engine"} and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(FIRST_USE_TIMEOUT_S))


def require(what: str, *reasons: Callable[[], str | None]) -> None:
    """Skip the test with one line that says what is missing and how to get it, unless all is there."""
    for reason in reasons:
        missing = reason()
        if missing:
            pytest.skip(f"{what}: {missing}")


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A private Docker engine that also listens with TLS."""
    require("Docker engine", docker_lab.missing, images.missing)
    with DockerEngine(tls=True) as engine:
        yield engine


@pytest.fixture(scope="session")
def hosts_engine() -> Iterator[DockerEngine]:
    """The engine that holds whole hosts, apart from the one that tests use as an engine."""
    hosts_need = ("nsenter", "iptables", "ssh", "ssh-keygen")
    require("systemd hosts", docker_lab.missing, host_image.missing, lambda: missing_programs(*hosts_need))
    with DockerEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def systemd_hosts(hosts_engine: DockerEngine) -> Iterator[HostLab]:
    """Five systemd hosts h1 … h5 over SSH, and `hidden` behind h1; leave each as you found it."""
    with HostLab(hosts_engine, count=SYSTEMD_HOSTS, hidden=True) as hosts:
        yield hosts


@pytest.fixture(scope="session")
def loopback_sshd() -> Iterator[LoopbackSshd]:
    """An sshd on every loopback address, with two unprivileged users; shared, so leave it running."""
    require("OpenSSH server", sshd_lab.missing)
    with LoopbackSshd(users=2) as server:
        yield server


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """An open registry on loopback."""
    require("container registry", registry_lab.missing, images.missing)
    with Registry() as server:
        yield server


@pytest.fixture(scope="session")
def registry_with_login() -> Iterator[Registry]:
    """A registry on loopback that asks for a user and a password (`.login`)."""
    require("container registry", registry_lab.missing, images.missing)
    with Registry(login=("puller", "registry-of-the-laboratory")) as server:
        yield server


@pytest.fixture(scope="session")
def libvirt_lab() -> Iterator[LibvirtLab]:
    """A private libvirt without domains, and a guest to boot; leave no domain behind."""
    require("libvirt and QEMU", libvirt_of_lab.missing, guest_image.missing)
    with LibvirtLab() as lab:
        yield lab


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server on loopback, in this process."""
    require("S3 server", s3_lab.missing)
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server with an empty database."""
    require("PostgreSQL", postgres_lab.missing)
    with Postgres() as server:
        yield server

"""pytest fixtures over the laboratory: started once per run, stopped at its end, skipped with one line each.

A root conftest makes them known with `pytest_plugins = ["tests.lab.fixtures"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.lab import docker_engine as docker_lab
from tests.lab import sshd as sshd_lab
from tests.lab.docker_engine import DockerEngine
from tests.lab.sshd import LoopbackSshd

FIRST_USE_TIMEOUT_S = 900
"""A test that first asks for the whole hosts may have to wait until their tree is built (a minute or two)."""


def _require(what: str, reason: Callable[[], str | None]) -> None:
    missing = reason()
    if missing:
        pytest.skip(f"{what}: {missing}")


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A private Docker engine that also listens with TLS."""
    _require("Docker engine", docker_lab.missing)
    with DockerEngine(tls=True) as engine:
        yield engine


@pytest.fixture(scope="session")
def loopback_sshd() -> Iterator[LoopbackSshd]:
    """An sshd on every loopback address, with two unprivileged users; shared, so leave it running."""
    _require("OpenSSH server", sshd_lab.missing)
    with LoopbackSshd(users=2) as server:
        yield server

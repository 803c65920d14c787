"""Fleets of guests, each settled and taken down at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.qemu.fleet import Guests, local_host
from tests.lab.libvirt_lab import LibvirtLab


@pytest.fixture(scope="module")
def guests(libvirt_lab: LibvirtLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    """Three emulated guests; two of them may be down at once, so that rolling them takes two rounds."""
    path = tmp_path_factory.mktemp("guests")
    fleet = Guests(path, "guests", libvirt_lab, local_host(libvirt_lab), first=10, max_unavailable=2)
    fleet.want(rollout={"reserve": 0})
    try:
        yield fleet
    finally:
        fleet.run("recover", ".", "--auto-approve")
        fleet.run("destroy", ".", "--auto-approve")

"""The registry gives each host its driver, and loads nothing that the host does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from executors import registry
from executors.driver import DriverError
from executors.simulated.world import SimulatedWorld
from manifests.schema.host import Host
from planner.observed import ObservedHost


def host(**more: object) -> Host:
    return Host.model_validate({"api_version": "fleetctl/v1", "kind": "Host", "name": "h1", **more})


def test_localhost_gets_a_reader_that_cannot_act(tmp_path: object) -> None:
    reader = registry.reader(host(root=str(tmp_path)), "host")
    assert reader.observe(frozenset()).reachable
    assert not hasattr(reader, "perform")
    assert hasattr(registry.driver(host(root=str(tmp_path)), "host"), "perform")


def test_an_injected_factory_takes_the_place_of_all_drivers() -> None:
    world = SimulatedWorld()
    for substrate in ("host", "docker", "qemu"):
        found = registry.driver(host(), substrate, factory=world.factory).observe(frozenset())
        assert found == ObservedHost(
            name="h1", substrate=substrate, reachable=True, arch="x86_64", os="simulated"
        )


def test_an_unknown_substrate_is_an_error_with_the_hosts_name() -> None:
    with pytest.raises(DriverError, match=r"h1.*'cloud'"):
        registry.driver(host(), "cloud")


def test_localhost_loads_no_library_of_other_hosts() -> None:
    code = (
        "import sys; from executors import registry; from manifests.schema.host import Host;"
        "registry.driver(Host(api_version='fleetctl/v1', kind='Host', name='l'), 'host');"
        "print(sorted({'paramiko','docker','httpx','boto3','rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"

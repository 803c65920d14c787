"""The outside client sees each node go and come back, and never more of them than there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.images import NODE_SCRIPT
from tests.lab.process import Daemon, find, free_port, wait_until
from tests.lab.watcher import Watcher, page

SOON_S = 10.0


def start_node(directory: Path, port: int, version: str) -> Daemon:
    """Run node.sh on loopback as it is in the images."""
    env = {"PORT": str(port), "VERSION": version, "WWW": str(directory / f"www-{port}")}
    node = Daemon(["/bin/sh", NODE_SCRIPT], log=directory / "log", env=env)
    node.wait_ready(lambda: page("127.0.0.1", port, "/health") == "ok", timeout_s=SOON_S)
    return node


def test_watcher_remembers_the_fewest_nodes_and_every_version_it_saw(tmp_path: Path) -> None:
    if find("busybox") is None:
        pytest.skip(
            "busybox: not installed; run `sh tests/lab/install-packages.sh` as root on Debian or Ubuntu"
        )
    ports = [free_port(), free_port()]
    nodes = [start_node(tmp_path, port, "1.0.0") for port in ports]
    try:
        places = {f"n{port}": ("127.0.0.1", port) for port in ports}
        with Watcher(places, path="/version") as watch:
            nodes[0].stop()
            wait_until(lambda: watch.fewest_available == 1, "the stop is seen", timeout_s=SOON_S)
            nodes[0] = start_node(tmp_path, ports[0], "1.1.0")
            wait_until(lambda: "1.1.0" in watch.answers_seen, "the new version is seen", timeout_s=SOON_S)
        assert watch.fewest_available == 1
        assert watch.answers_seen == {"1.0.0", "1.1.0"}
        assert watch.sightings[-1].available == 2
    finally:
        for node in nodes:
            node.stop()

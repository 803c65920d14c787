"""A fleet's life in containers of a real engine: by its Unix socket, by TCP with TLS, and through SSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import Fleet, engine, in_containers
from tests.lab.docker_engine import DockerEngine
from tests.lab.sshd import LoopbackSshd

# A whole life in one test: far more than it takes, also on a loaded machine.
pytestmark = pytest.mark.timeout(600)


def container(fleet: Fleet, node: str) -> str:
    return f"fleetctl-{fleet.uid(node)}"


def test_from_nothing_to_three_containers_and_no_changes(boxes: Fleet) -> None:
    planned = boxes.pending()
    assert "Plan: 3 to add, 0 to change, 0 to destroy." in planned
    assert set(boxes.ask("/version").values()) == {None}
    boxes.apply()
    assert set(boxes.ask("/version").values()) == {"1.0.0"}


def test_an_upgrade_keeps_the_floor_as_an_outside_client_sees_it(boxes: Fleet) -> None:
    boxes.want(version="1.0.0").settle()
    boxes.want(version="1.1.0")
    with boxes.watch() as watch:
        boxes.apply()
    boxes.kept(watch)
    assert set(boxes.ask("/version").values()) == {"1.1.0"}


def test_a_changed_environment_replaces_containers_within_the_floor_and_keeps_their_data(
    boxes: Fleet,
) -> None:
    """Each new container counts one more start over the same data volume."""
    boxes.want(greeting="hello").settle()
    starts = boxes.ask("/starts")
    boxes.want(greeting="good day")
    assert "env.GREETING: hello -> good day" in boxes.pending()
    with boxes.watch() as watch:
        boxes.apply()
    boxes.kept(watch)
    assert set(boxes.ask("/env").values()) == {"good day"}
    assert boxes.ask("/starts") == {name: str(int(n or 0) + 1) for name, n in starts.items()}


def test_a_changed_file_is_reloaded_in_the_same_container(boxes: Fleet) -> None:
    boxes.want(conf="one").settle()
    boots, reloads = boxes.ask("/boot"), boxes.ask("/reloads")
    boxes.want(conf="two").apply()
    assert set(boxes.ask("/config").values()) == {"two"}
    assert boxes.ask("/boot") == boots
    assert boxes.ask("/reloads") == {name: str(int(n or 0) + 1) for name, n in reloads.items()}


@pytest.mark.parametrize("how", ["kill", "rm"])
def test_a_container_killed_or_removed_by_hand_is_repaired_alone(
    boxes: Fleet, docker_engine: DockerEngine, how: str
) -> None:
    boxes.settle()
    boots = boxes.ask("/boot")
    lost = container(boxes, "web-1")
    docker_engine.docker(*(["kill", lost] if how == "kill" else ["rm", "-f", lost]))
    planned = boxes.pending()
    assert planned.count("node/boxes/") == planned.count("node/boxes/web-1")
    with boxes.watch() as watch:
        boxes.apply()
    boxes.kept(watch, boxes.count - 1)
    after = boxes.ask("/boot")
    assert after.pop("web-1") not in (None, boots.pop("web-1"))
    assert after == boots


def test_what_was_changed_by_hand_shows_field_by_field_and_is_undone(
    boxes: Fleet, docker_engine: DockerEngine
) -> None:
    """A file in the container, its restart policy, its memory limit, and another network."""
    boxes.want(conf="declared").settle()
    changed = container(boxes, "web-2")
    docker_engine.docker("exec", changed, "sh", "-c", "echo by hand >/fleetctl/conf")
    docker_engine.docker("update", "--restart", "no", "--memory", "64m", "--memory-swap", "64m", changed)
    docker_engine.docker("network", "create", "stray")
    try:
        docker_engine.docker("network", "connect", "stray", changed)
        planned = boxes.pending()
        assert "Changed outside of fleetctl" in planned
        for field in ("files.conf", "container.restart", "limits.memory", "container.network"):
            assert field in planned, planned
        assert planned.count("node/boxes/") == planned.count("node/boxes/web-2")
        boxes.apply()
    finally:
        docker_engine.docker("network", "rm", "stray")


def test_a_stranger_with_the_name_is_left_alone_and_named(boxes: Fleet, docker_engine: DockerEngine) -> None:
    """Somebody's container has the name that a node needs: the apply fails, and nothing of his is touched."""
    boxes.settle()
    name = container(boxes, "web-0")
    image = docker_engine.inspect(name)["Image"]
    docker_engine.docker("rm", "-f", name)
    docker_engine.docker("create", "--name", name, image, "/bin/node")
    stranger = docker_engine.inspect(name)["Id"]
    failed = boxes.run("apply", ".", "--auto-approve")
    assert failed.code in (1, 4), str(failed)
    assert stranger[:12] in failed.err and "not ours" in failed.err, str(failed)
    assert docker_engine.inspect(name)["Id"] == stranger
    docker_engine.docker("rm", name)
    boxes.apply()


@pytest.fixture(scope="module")
def root_sshd() -> Iterator[LoopbackSshd]:
    """An sshd that lets root in, who alone may speak to the private engine's socket."""
    with LoopbackSshd(users=1, allow_root=True) as server:
        yield server


@pytest.fixture(params=["tcp with TLS", "ssh"])
def elsewhere(request: pytest.FixtureRequest, docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Fleet]:
    """Two containers of an engine that is reached over a network."""
    if request.param == "ssh":
        server: LoopbackSshd = request.getfixturevalue("root_sshd")
        server.write_known_hosts(tmp_path / "known_hosts")
        ssh = {
            "address": "127.0.0.1",
            "port": server.port,
            "user": "root",
            "identity_file": str(server.key),
            "known_hosts": "./known_hosts",
            "config_file": "/dev/null",
        }
        host = engine("far", docker_engine.url, ssh=ssh)
    else:
        host = engine("far", docker_engine.tcp_url)
        files = docker_engine.client_certificates
        host["docker"]["tls"] = {
            "ca": str(files / "ca.pem"),
            "cert": str(files / "cert.pem"),
            "key": str(files / "key.pem"),
        }
    fleet = Fleet(tmp_path, "far", [host], [in_containers("far", ["far"], free_ports(2), 2)])
    try:
        yield fleet
    finally:
        fleet.destroy()


def test_an_engine_elsewhere_serves_the_same_life(elsewhere: Fleet, docker_engine: DockerEngine) -> None:
    """Create, upgrade within the floor, reload, repair."""
    elsewhere.apply()
    elsewhere.want(version="1.1.0")
    with elsewhere.watch() as watch:
        elsewhere.apply()
    elsewhere.kept(watch)
    assert set(elsewhere.ask("/version").values()) == {"1.1.0"}
    boots = elsewhere.ask("/boot")
    elsewhere.want(conf="two").apply()
    assert elsewhere.ask("/boot") == boots
    docker_engine.docker("rm", "-f", container(elsewhere, "far-1"))
    elsewhere.apply()
    assert elsewhere.ask("/boot")["far-0"] == boots["far-0"]
    assert elsewhere.ask("/config") == {"far-0": "two", "far-1": "two"}

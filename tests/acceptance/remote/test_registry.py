"""Images from a real registry: index and platform digests, credentials, a tag that moves, volumes that would be lost."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import free_ports
from tests.acceptance.remote.fleet import Fleet, engine, in_containers
from tests.lab.docker_engine import DockerEngine
from tests.lab.images import Image, node_image
from tests.lab.registry import Registry

# A whole life in one test: far more than it takes, also on a loaded machine.
pytestmark = pytest.mark.timeout(600)

Make = Callable[..., Fleet]
# Images that no other test has brought to the shared engine.
UNIQUE = {"UNIQUE": "registry"}


@pytest.fixture
def one(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Make]:
    """Makes a fleet of one container whose images come from references."""
    made: list[Fleet] = []

    def make(images: dict[str, str], **more: Any) -> Fleet:
        group = in_containers("one", ["box"], free_ports(1), 1, **more)
        made.append(Fleet(tmp_path, "one", [engine("box", docker_engine.url)], [group], images=images))
        return made[-1]

    yield make
    for fleet in made:
        fleet.destroy()


def test_index_and_platform_digests_are_pins_and_a_moved_tag_changes_nothing(
    registry: Registry, one: Make
) -> None:
    """1.0.0 is pinned by its index, 1.1.0 by its platform's manifest; then the tag moves to another image."""
    both = [node_image("1.0.0", env=UNIQUE), node_image("1.0.0", env=UNIQUE, architecture="arm64")]
    index = registry.push_index(both, "team/node", "stable")
    platform = registry.push(node_image("1.1.0", env=UNIQUE), "team/node", "next")
    assert index != registry.push(both[0], "team/node"), "an index is not its platform's manifest"
    name = f"{registry.host}/team/node"
    fleet = one({"1.0.0": f"{name}@{index}", "1.1.0": f"{name}@{platform}"})
    fleet.apply()
    boots = fleet.ask("/boot")
    registry.push(node_image("9.9.9", env=UNIQUE), "team/node", "stable")
    fleet.apply()
    assert fleet.ask("/boot") == boots, "a tag plays no part"
    fleet.want(version="1.1.0").apply()
    assert fleet.ask("/version") == {"one-0": "1.1.0"}


def test_a_tag_is_pinned_moves_and_stays_beside_the_digest_that_runs(registry: Registry, one: Make) -> None:
    name = f"{registry.host}/team/tagged"
    first = registry.push(node_image("1.0.0", env=UNIQUE), "team/tagged", "stable")
    other = registry.push(node_image("1.1.0", env=UNIQUE), "team/tagged", "next")
    fleet = one({"1.0.0": f"{name}:stable@{first}", "1.1.0": f"{name}@{other}"})
    engine_url = str(fleet.hosts[0]["docker"]["url"])
    manifest = next(p for p in sorted(fleet.path.glob("*.yaml")) if "kind: Release" in p.read_text())
    same = fleet.run("pin", manifest.name, "--check", "--engine", engine_url)
    assert same.code == 0, str(same)
    fleet.apply()
    assert fleet.ask("/version") == {"one-0": "1.0.0"}

    moved_to = registry.push(node_image("1.0.0", env={"UNIQUE": "moved"}), "team/tagged", "stable")
    moved = fleet.run("pin", manifest.name, "--check", "--engine", engine_url)
    assert moved.code == 1 and f"{first} -> {moved_to}" in moved.out, str(moved)
    assert fleet.run("pin", manifest.name, env={"DOCKER_HOST": engine_url}).code == 0
    assert f"{name}:stable@{moved_to}" in manifest.read_text()
    nowhere = fleet.run(
        "pin", "--release", "p@1.0.0", "--artifact", f"docker={name}:none", "--engine", engine_url
    )
    assert nowhere.code == 1 and "its registry was asked" in nowhere.err, str(nowhere)


def test_a_digest_that_nobody_pushed_is_told_and_nothing_is_touched(registry: Registry, one: Make) -> None:
    there = registry.push(node_image("1.0.0", env=UNIQUE), "team/other")
    name = f"{registry.host}/team/other"
    fleet = one({"1.0.0": f"{name}@{there}", "1.1.0": f"{name}@sha256:{'0' * 64}"})
    fleet.apply()
    boots = fleet.ask("/boot")
    fleet.want(version="1.1.0")
    failed = fleet.run("apply", ".", "--auto-approve")
    assert failed.code == 1, str(failed)
    assert "could not be pulled" in failed.err
    assert fleet.ask("/boot") == boots
    fleet.want(version="1.0.0")


def test_credentials_come_from_the_clients_configuration_and_their_lack_is_told(
    registry_with_login: Registry, one: Make
) -> None:
    registry = registry_with_login
    assert registry.login is not None
    digest = registry.push(node_image("1.0.0", env={"UNIQUE": "login"}), "private/node")
    fleet = one({"1.0.0": f"{registry.host}/private/node@{digest}"})
    folder = fleet.path / "client"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    # The configuration of the docker client, as the library and `docker login` know it.
    fleet.secrets["DOCKER_CONFIG"] = str(folder)
    refused = fleet.run("apply", ".", "--auto-approve")
    assert refused.code == 1, str(refused)
    assert "docker login" in refused.err, str(refused)
    login = base64.b64encode(":".join(registry.login).encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": login}}}))
    fleet.apply()
    assert fleet.ask("/version") == {"one-0": "1.0.0"}


def with_volume(image: Image, path: str) -> Image:
    """The same image, which declares a volume that nobody has named."""
    config = json.loads(image.config)
    config["config"]["Volumes"] = {path: {}}
    return replace(image, config=json.dumps(config, sort_keys=True).encode())


@pytest.mark.parametrize("way_out", ["name it", "accept the loss"])
def test_an_anonymous_volume_that_would_be_lost_is_refused(
    registry: Registry, one: Make, way_out: str
) -> None:
    image = with_volume(node_image("1.0.0", env=UNIQUE), "/keep")
    reference = f"{registry.host}/team/volume@{registry.push(image, 'team/volume')}"
    fleet = one({"1.0.0": reference})
    refused = fleet.run("apply", ".", "--auto-approve")
    assert refused.code in (1, 4), str(refused)
    assert "/keep" in refused.err and "lose_anonymous_volumes" in refused.err, str(refused)
    assert fleet.nodes() == []
    container = fleet.groups[0]["container"]
    if way_out == "name it":
        container["volumes"] = [{"name": "keep", "path": "/keep"}]
    else:
        container["lose_anonymous_volumes"] = True
    fleet.want().apply()
    assert fleet.ask("/version") == {"one-0": "1.0.0"}

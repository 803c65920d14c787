"""Images from a real registry: index and platform digests, credentials, and tags that move without effect (D2)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from executors.docker.engine import client
from executors.docker.images import ImageError, Images
from executors.transports.local import LocalTransport
from manifests.schema.host import Docker, Host
from planner.spec import ArtifactPin
from tests.lab.docker_engine import DockerEngine
from tests.lab.images import node_image
from tests.lab.registry import Registry, missing

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    if reason := missing():
        pytest.skip(reason)
    with Registry() as started:
        yield started


def _images(engine: DockerEngine) -> Images:
    host = Host(api_version="fleetctl/v1", kind="Host", name="engine", docker=Docker(url=engine.url))
    return Images(client(host, LocalTransport()))


def _pin(registry: Registry, repository: str, digest: str) -> ArtifactPin:
    return ArtifactPin(source=f"{registry.host}/{repository}@{digest}", digest=digest, name="node")


def test_the_platforms_digest_and_the_indexs_lead_to_the_same_image(
    registry: Registry, docker_engine: DockerEngine
) -> None:
    image = node_image("2.0.0")
    platform = registry.push(image, "two/digests")
    index = registry.push_index([image, node_image("2.0.0", architecture="arm64")], "two/digests")
    assert platform != index
    for digest in (platform, index):
        images = _images(docker_engine)
        heard: list[str] = []
        assert images.stage(_pin(registry, "two/digests", digest), "", heard.append) == image.image_id
        assert heard, "a pull tells how far it is"
        assert images.stage(_pin(registry, "two/digests", digest), "") == image.image_id


def test_a_tag_that_moves_changes_nothing(registry: Registry, docker_engine: DockerEngine) -> None:
    old, new = node_image("3.0.0"), node_image("3.0.1")
    digest = registry.push(old, "moving", "stable")
    images = _images(docker_engine)
    assert images.stage(_pin(registry, "moving", digest), "") == old.image_id
    registry.push(new, "moving", "stable")
    assert images.stage(_pin(registry, "moving", digest), "") == old.image_id
    assert _images(docker_engine).find(_pin(registry, "moving", digest)) == old.image_id


def test_what_is_not_there_any_more_is_found_before_a_node_is_touched(
    registry: Registry, docker_engine: DockerEngine
) -> None:
    digest = registry.push(node_image("4.0.0"), "gone")
    registry.delete("gone", digest)
    pin = _pin(registry, "gone", digest)
    assert _images(docker_engine).find(pin) is None
    with pytest.raises(ImageError, match=digest) as refused:
        _images(docker_engine).stage(pin, "")
    assert "this digest was pushed" in (refused.value.hint or "")


def test_an_image_without_registry_digests_is_not_taken_for_the_pinned_one(
    registry: Registry, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """Loaded from a file under the repository's name, it is not verified: the pin is pulled."""
    image = node_image("5.0.0")
    docker_engine.docker("load", "--quiet", input_bytes=image.archive(f"{registry.host}/loaded:5"))
    pin = _pin(registry, "loaded", "sha256:" + "0" * 64)
    assert _images(docker_engine).find(pin) is None


def test_a_registry_with_a_password_is_logged_into_with_the_users_own_credentials(
    docker_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the user's docker configuration, in plain or through a credential helper; without them the error says so."""
    if reason := missing():
        pytest.skip(reason)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with Registry(login=("ops", "hunter2")) as private:
        image = node_image("6.0.0")
        pin = _pin(private, "private", private.push(image, "private"))
        with pytest.raises(ImageError) as refused:
            _images(docker_engine).stage(pin, "")
        assert "docker login" in (refused.value.hint or "")
        assert "hunter2" not in str(refused.value)

        helper = tmp_path / "docker-credential-lab"
        answer = json.dumps({"ServerURL": private.host, "Username": "ops", "Secret": "hunter2"})
        helper.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{answer}'\n")
        helper.chmod(0o755)
        (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {private.host: "lab"}}))
        assert _images(docker_engine).stage(pin, "") == image.image_id

        docker_engine.docker("rmi", "--force", image.image_id)
        plain = base64.b64encode(b"ops:hunter2").decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {private.host: {"auth": plain}}}))
        assert _images(docker_engine).stage(pin, "") == image.image_id


def test_a_root_file_system_becomes_an_image_once(docker_engine: DockerEngine, tmp_path: Path) -> None:
    from manifests.digest import sha256

    path = tmp_path / "rootfs.tar"
    path.write_bytes(node_image("7.0.0").layer)
    pin = ArtifactPin(source=str(path), digest=sha256(path.read_bytes()), name=path.name)
    first = _images(docker_engine).stage(pin, str(path))
    assert _images(docker_engine).stage(pin, str(path)) == first
    assert _images(docker_engine).find(pin) == first

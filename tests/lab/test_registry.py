"""The registry serves images by platform and index digest, and keeps strangers out."""

from __future__ import annotations

from tests.lab.docker_engine import DockerEngine
from tests.lab.images import node_image
from tests.lab.registry import Registry


def test_registry_gives_an_engine_the_image_of_its_platform_by_index_digest(
    docker_engine: DockerEngine, registry: Registry
) -> None:
    own, foreign = node_image("1.0.0"), node_image("1.0.0", architecture="arm64")
    index = registry.push_index([own, foreign], "lab/node", "1.0.0")
    assert registry.digest_of("lab/node", "1.0.0") == index
    reference = f"{registry.host}/lab/node@{index}"
    docker_engine.docker("pull", reference)
    assert docker_engine.inspect(reference)["Id"] == own.image_id


def test_registry_tag_moves_while_the_digest_stays(registry: Registry) -> None:
    first = registry.push(node_image("1.0.0"), "lab/moving", "stable")
    second = registry.push(node_image("1.1.0"), "lab/moving", "stable")
    assert first != second
    assert registry.digest_of("lab/moving", "stable") == second
    assert registry.digest_of("lab/moving", first) == first


def test_registry_with_a_login_turns_strangers_away(
    docker_engine: DockerEngine, registry_with_login: Registry
) -> None:
    server = registry_with_login
    assert server.login is not None
    reference = f"{server.host}/lab/node@{server.push(node_image('1.0.0'), 'lab/node')}"
    assert b"no basic auth credentials" in docker_engine.docker("pull", reference, check=False).stderr
    user, password = server.login
    docker_engine.docker("login", "-u", user, "--password-stdin", server.host, input_bytes=password.encode())
    docker_engine.docker("pull", reference)
    docker_engine.docker("logout", server.host)

"""docs/effects.md, table of `docker`, row by row on a real engine: what becomes of a lost answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executors.docker.driver import DockerDriver
from executors.docker.engine import client
from executors.driver import Operation
from executors.transports.local import LocalTransport
from manifests.schema.container import Container
from manifests.schema.fleet import Data, Drain
from manifests.schema.host import Docker, Host
from planner.plan import StepKind
from planner.spec import ArtifactPin, FileSpec, NodeSpec
from tests.acceptance.remote.lost import LosingEngine, When
from tests.executors.places import operation
from tests.lab.docker_engine import DockerEngine
from tests.lab.images import node_image

CREATE, START, STOP, RELOAD = StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.RELOAD
DESTROY, ADOPT = StepKind.DESTROY, StepKind.ADOPT
BEFORE: dict[StepKind, tuple[StepKind, ...]] = {
    CREATE: (),
    START: (CREATE,),
    STOP: (CREATE, START),
    RELOAD: (CREATE, START),
    DESTROY: (CREATE,),
    ADOPT: (CREATE, START),
}
CALLS: dict[StepKind, tuple[str, str]] = {
    CREATE: ("POST", "/containers/create"),
    START: ("POST", "/start"),
    STOP: ("POST", "/stop"),
    RELOAD: ("POST", "/kill"),
    DESTROY: ("DELETE", ""),
    ADOPT: ("PUT", "/archive"),
}
_uids = iter(range(1, 1000))


class Node:
    """One node on the engine: its effects, one after another."""

    def __init__(self, engine: DockerEngine, pin: ArtifactPin) -> None:
        self.engine, self.pin = engine, pin
        host = Host(api_version="fleetctl/v1", kind="Host", name="box", docker=Docker(url=engine.url))
        self.line = LosingEngine(client(host, LocalTransport()))
        self.driver = DockerDriver("box", lambda: self.line.api, LocalTransport())
        self.driver.stage(pin, pin.source)
        self.uid = f"effect{next(_uids):010d}"
        self.name = f"fleetctl-{self.uid}"

    def operation(self, effect: StepKind, **more: Any) -> Operation:
        spec = NodeSpec(
            substrate="docker",
            host="box",
            address="127.0.0.1",
            product="node",
            version="1.0.0",
            artifact=self.pin,
            command=("/bin/node",),
            env={"DATA_DIR": "/fleetctl/data", "CONFIG_FILE": "/fleetctl/conf", **more.pop("env", {})},
            files=(FileSpec(path="conf", content=effect.value),),
            drain=Drain(timeout="5s"),  # type: ignore[arg-type]
            data=Data(path="data"),
            container=Container(tmpfs=("/tmp",)),
        )
        if effect is ADOPT:
            more["lineage"] = "lineage-2"
        return operation(effect, self.uid, spec, **more)

    def do(self, *effects: StepKind, **more: Any) -> None:
        for effect in effects:
            done = self.driver.perform(self.operation(effect, **more), {})
            assert done.state == "succeeded", done

    def lose(self, when: When, effect: StepKind, call: tuple[str, str] | None = None) -> Operation:
        """Performs the effect while the answer to its call is lost."""
        lost = self.operation(effect)
        method, end = call or CALLS[effect]
        self.line.lose(when, method, end or f"/containers/{self.name}")
        answer = self.driver.perform(lost, {})
        assert answer.state == "unknown", answer
        return lost

    def starts(self) -> int:
        """How often the node's own count says that it was started."""
        copied = self.engine.docker("cp", f"{self.name}:/fleetctl/data/starts", "-", check=False)
        return copied.stdout.count(b"start\n")

    def close(self) -> None:
        self.driver.close()
        self.engine.docker("rm", "--force", self.name, check=False)
        for kind in ("data", "files"):
            self.engine.docker("volume", "rm", f"{self.name}-{kind}", check=False)


@pytest.fixture(scope="module")
def pin(tmp_path_factory: pytest.TempPathFactory) -> ArtifactPin:
    path: Path = tmp_path_factory.mktemp("image") / "node.tar"
    data = node_image("1.0.0").archive("node:1.0.0")
    path.write_bytes(data)
    return ArtifactPin(source=str(path), digest=f"sha256:{hashlib.sha256(data).hexdigest()}", name=path.name)


@pytest.fixture
def node(docker_engine: DockerEngine, pin: ArtifactPin) -> Iterator[Node]:
    made = Node(docker_engine, pin)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("effect", [CREATE, START, STOP, DESTROY, ADOPT])
def test_an_answer_lost_after_the_effect_is_found_and_a_repeat_acts_no_more(
    node: Node, effect: StepKind
) -> None:
    node.do(*BEFORE[effect])
    lost = node.lose(When.AFTER, effect)
    found = node.driver.lookup(lost)
    assert found.state == "succeeded", found
    again = node.driver.perform(lost, {})
    assert again.state == "succeeded", again
    assert node.starts() <= 1


@pytest.mark.parametrize(
    ("effect", "code"),
    [
        (CREATE, "docker.not_created"),
        (START, "docker.not_started"),
        (STOP, "docker.still_running"),
        (DESTROY, "docker.not_removed"),
        (ADOPT, "docker.not_adopted"),
    ],
)
def test_a_call_that_never_arrived_is_found_not_to_have_come_about(
    node: Node, effect: StepKind, code: str
) -> None:
    node.do(*BEFORE[effect])
    lost = node.lose(When.BEFORE, effect)
    found = node.driver.lookup(lost)
    assert (found.state, found.code) == ("failed", code), found
    assert node.starts() <= BEFORE[effect].count(START)


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_whether_a_reloads_signal_came_through_is_never_known(node: Node, when: When) -> None:
    node.do(*BEFORE[RELOAD])
    lost = node.lose(when, RELOAD)
    for _ in range(2):
        found = node.driver.lookup(lost)
        assert (found.state, found.code) == ("unknown", "docker.reload"), found


def test_a_reload_whose_files_were_not_placed_did_not_come_about(node: Node) -> None:
    node.do(*BEFORE[RELOAD])
    lost = node.lose(When.BEFORE, RELOAD, ("PUT", "/archive"))
    found = node.driver.lookup(lost)
    assert (found.state, found.code) == ("failed", "docker.not_reloaded"), found


def test_a_container_still_draining_is_neither_stopped_nor_not(node: Node) -> None:
    """The stop came through, and its answer did not: while it drains, nobody may say how it ends."""
    node.do(CREATE, START, env={"DRAIN_S": "3"})
    lost = node.operation(STOP)
    node.engine.docker("kill", "--signal", "TERM", node.name)
    found = node.driver.lookup(lost)
    assert (found.state, found.code) == ("unknown", "docker.stopping"), found
    node.engine.docker("wait", node.name)
    assert node.driver.lookup(lost).state == "succeeded"

"""The conformance suite over a real Docker engine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from executors.command import deaf
from executors.docker.driver import DockerDriver
from executors.docker.engine import client
from executors.driver import Driver, DriverError, Operation, ProbeTarget
from executors.transport import OutcomeLost
from executors.transports.local import LocalTransport
from manifests.digest import sha256
from manifests.schema.container import Container
from manifests.schema.fleet import Data, Drain, Health, HttpProbe
from manifests.schema.host import Docker, Host
from planner.observed import HealthState, NodeState
from planner.plan import StepKind
from planner.spec import ArtifactPin, FileSpec, NodeSpec, SecretUse
from tests.executors.conformance import CREATE, DESTROY, RELOAD, START, STOP, UID, Conformance
from tests.executors.places import Node, Place, free_port, shell_command
from tests.lab.docker_engine import DockerEngine
from tests.lab.images import node_image

pytestmark = pytest.mark.docker


class DockerPlace:
    """Containers of one engine, of the laboratory's image, whose program counts its starts in its data."""

    def __init__(self, engine: DockerEngine, archive: Path) -> None:
        self.engine = engine
        self.archive = archive
        self.port = free_port()

    def driver(self) -> Driver:
        host = Host(
            api_version="fleetctl/v1",
            kind="Host",
            name="h1",
            docker=Docker.model_validate({"url": self.engine.url}),
        )
        return DockerDriver("h1", lambda: client(host, LocalTransport()), LocalTransport())

    def artifact(self) -> tuple[ArtifactPin, str]:
        digest = sha256(self.archive.read_bytes())
        return ArtifactPin(source=str(self.archive), digest=digest, name=self.archive.name), str(self.archive)

    def spec(self, uid: str, **changes: object) -> NodeSpec:
        env: dict[str, str | SecretUse] = {
            "PORT": str(self.port),
            "DATA_DIR": "/fleetctl/data",
            "TOKEN": SecretUse(secret="env:TOKEN"),
        }
        for name, value in changes.pop("env", {}).items():  # type: ignore[attr-defined]
            env["EXIT_AT_START" if name == "EXIT" else name] = value
        values: dict[str, object] = {
            "substrate": "docker",
            "host": "h1",
            "address": "127.0.0.1",
            "port": self.port,
            "product": "node",
            "version": "1.0.0",
            "artifact": self.artifact()[0],
            "command": ("/bin/node",),
            "files": (FileSpec(path="conf/app.txt", content="one\n"),),
            "data": Data(path="data"),
            "health": Health(http=HttpProbe(path="/health")),
            "drain": Drain.model_construct(signal="TERM", timeout=5_000),
            "container": Container(tmpfs=("/tmp",)),
        }
        return NodeSpec.model_validate({**values, **changes, "env": env})

    def kill(self, uid: str) -> None:
        self.engine.docker("kill", "--signal", "KILL", f"fleetctl-{uid}")

    def edit(self, uid: str) -> str:
        self.engine.docker("exec", f"fleetctl-{uid}", "sh", "-c", "echo edited >/fleetctl/conf/app.txt")
        return "files.conf/app.txt"

    def starts(self, uid: str) -> int:
        copied = self.archive.with_name("starts")
        copied.unlink(missing_ok=True)
        self.engine.docker("cp", f"fleetctl-{uid}:/fleetctl/data/starts", str(copied), check=False)
        return len(copied.read_text().splitlines()) if copied.exists() else 0

    def data_kept(self, uid: str) -> bool:
        return f"fleetctl-{uid}-data" in self.engine.out("volume", "ls", "-q").split()

    def speak(self, uid: str, text: str) -> None:
        self.engine.docker("exec", f"fleetctl-{uid}", "sh", "-c", f"echo {shlex.quote(text)} >/proc/1/fd/1")

    def command(self, status: int, out: str, err: str) -> tuple[str, ...]:
        return shell_command(status, out, err)

    def cut_off(self, operation: Operation) -> None:
        raise AssertionError("one call to the engine has no middle")

    def close(self) -> None:
        for container in self.engine.out("ps", "-aq", "--filter", "label=fleetctl.uid").split():
            self.engine.docker("rm", "-f", container)
        for volume in self.engine.out("volume", "ls", "-q", "--filter", "name=fleetctl-").split():
            self.engine.docker("volume", "rm", volume)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "node.tar"
    path.write_bytes(node_image("1.0.0").archive("node:1.0.0"))
    return path


class TestDocker(Conformance):
    replaces_in_place = False
    reload_leaves_a_trace = False
    stopped = (NodeState.STOPPED, NodeState.EXITED)

    @pytest.fixture
    def place(self, docker_engine: DockerEngine, archive: Path) -> Iterator[Place]:
        place = DockerPlace(docker_engine, archive)
        yield place
        place.close()

    def test_a_command_past_its_time_is_given_up_and_one_in_a_stopped_container_refused(
        self, node: Node, place: Place
    ) -> None:
        """The engine ends no command, and says nothing while it runs: the wait is ours to bound."""
        node.run()
        with pytest.raises(OutcomeLost) as lost:
            node.driver.execute(UID, ("sleep", "600"), deaf, 0.3)
        assert "may still run in the container" in (lost.value.hint or "")
        assert node.driver.execute(UID, ("true",), deaf, 30.0) == 0, "the connection is as good as before"
        assert node.driver.execute(UID, ("no-such-program",), deaf, 30.0) in (126, 127)
        node.do(STOP)
        with pytest.raises(DriverError) as stopped:
            node.driver.execute(UID, ("true",), deaf, 30.0)
        assert stopped.value.code == "docker.not_running"

    def test_an_exit_at_once_is_told_with_its_status_and_last_words(self, node: Node, place: Place) -> None:
        """The engine starts it again and again; what counts is that no probe of it passes."""
        spec = place.spec(UID, env={"EXIT": "3"})
        assert node.do(CREATE, spec).state == "succeeded"
        node.do(START, spec)
        assert node.driver.probe(ProbeTarget(UID, spec)).state is HealthState.FAILING

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, RELOAD, DESTROY])
    def test_an_older_epoch_is_refused(self, node: Node, effect: StepKind) -> None:
        super().test_an_older_epoch_is_refused(node, effect)

"""The docker driver on a real engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from executors import registry
from executors.docker.driver import DockerDriver
from executors.docker.engine import client
from executors.driver import DriverError, Operation, ProbeTarget
from executors.outcome import Outcome, OutcomeState
from executors.transports.local import LocalTransport
from manifests.digest import sha256
from manifests.schema.container import Container, Volume
from manifests.schema.fleet import (
    CommandProbe,
    Data,
    Drain,
    DrainCall,
    Drained,
    Health,
    HttpProbe,
    Limits,
)
from manifests.schema.host import Docker, Host, Ssh, Tls
from manifests.secret import Secret
from planner.observed import HealthState, NodeState, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin, FileSpec, NodeSpec, SecretUse, fields
from tests.lab.docker_engine import DockerEngine
from tests.lab.images import node_image
from tests.lab.process import free_port
from tests.lab.sshd import LoopbackSshd
from tests.lab.sshd import missing as sshd_missing

pytestmark = pytest.mark.docker

SECRETS = {"env:TOKEN": Secret("hunter2-canary")}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "node.tar"
    path.write_bytes(node_image("1.0.0").archive("node:1.0.0"))
    return path


@pytest.fixture(scope="module")
def pin(archive: Path) -> ArtifactPin:
    return ArtifactPin(source=str(archive), digest=sha256(archive.read_bytes()), name=archive.name)


@pytest.fixture
def driver(docker_engine: DockerEngine, pin: ArtifactPin) -> Iterator[DockerDriver]:
    made = _driver(docker_engine)
    made.stage(pin, pin.source)
    yield made
    for container in docker_engine.out("ps", "-aq", "--filter", "label=fleetctl.uid").split():
        docker_engine.docker("rm", "-f", container)
    for volume in docker_engine.out("volume", "ls", "-q", "--filter", "name=fleetctl-").split():
        docker_engine.docker("volume", "rm", volume)
    made.close()


def _host(**docker: object) -> Host:
    return Host(api_version="fleetctl/v1", kind="Host", name="engine", docker=Docker(**docker))  # type: ignore[arg-type]


def _driver(engine: DockerEngine) -> DockerDriver:
    host = _host(url=engine.url)
    return DockerDriver("engine", lambda: client(host, LocalTransport()), LocalTransport())


Make = Callable[..., Operation]


@pytest.fixture
def make(pin: ArtifactPin) -> Make:
    port = free_port()

    def operation(effect: StepKind, number: int = 1, **changes: Any) -> Operation:
        spec = NodeSpec(
            substrate="docker",
            host="engine",
            address="127.0.0.1",
            port=port,
            product="node",
            version="1.0.0",
            artifact=pin,
            command=("/bin/node",),
            env={"GREETING": "hi", "TOKEN": SecretUse(secret="env:TOKEN"), "PORT": str(port)},
            drain=Drain(timeout="3s"),
            health=Health(http=HttpProbe(path="/health"), timeout="2s"),
            container=Container(tmpfs=("/tmp",)),
        ).model_copy(update=changes.pop("spec", {}))
        values: dict[str, Any] = {
            "operation_id": f"op-{number}",
            "attempt": 1,
            "fleet": "f",
            "lineage": "line-1",
            "epoch": 3,
            "node": "web-0",
            "uid": "uid0000000000001",
            "generation": 1,
            "effect": effect,
            "spec": spec,
            "fields": fields(spec, {"env:TOKEN": "00ff"}),
        }
        return Operation(**{**values, **changes})

    return operation


def _ok(outcome: Outcome) -> Outcome:
    assert outcome.state is OutcomeState.SUCCEEDED, outcome
    return outcome


def _run(driver: DockerDriver, *operations: Operation, secrets: Mapping[str, Secret] = SECRETS) -> None:
    for operation in operations:
        _ok(driver.perform(operation, secrets))


def _node(driver: DockerDriver) -> ObservedNode:
    (node,) = driver.observe(frozenset({"f"})).nodes
    return node


def _healthy(driver: DockerDriver, operation: Operation) -> bool:
    for _ in range(100):
        if driver.probe(ProbeTarget(operation.uid, operation.spec)).state is HealthState.PASSING:
            return True
        LocalTransport().run(_pause())
    return False


def _pause() -> Any:
    from executors.command import Command

    return Command(("sleep", "0.1"))


def test_a_node_lives_from_create_to_destroy_and_its_fields_are_read_back_unchanged(
    driver: DockerDriver, make: Make, docker_engine: DockerEngine
) -> None:
    spec = {
        "files": (
            FileSpec(path="config", content="a=1\n", mode="0640"),
            FileSpec(path="key", secret="env:TOKEN", mode="0600"),
        ),
        "data": Data(path="data"),
        "limits": Limits(memory="64MiB", processes=64, open_files=512),
        "user": "0:0",
        "container": Container(
            tmpfs=("/tmp",), volumes=(Volume(name="extra", path="/extra"),), capabilities=("CHOWN",)
        ),
    }
    create = make(StepKind.CREATE, spec=spec)
    _run(driver, create)
    assert _node(driver).state is NodeState.STOPPED
    _run(driver, make(StepKind.START, 2, spec=spec))
    node = _node(driver)
    assert (node.state, node.generation, node.epoch, node.lineage) == (NodeState.RUNNING, 1, 3, "line-1")
    assert node.fields == dict(create.fields)
    assert _healthy(driver, create)
    name = "fleetctl-uid0000000000001"
    assert (
        docker_engine.out("exec", name, "busybox", "cat", "/fleetctl/config", "/fleetctl/key")
        == "a=1\nhunter2-canary"
    )
    assert "serves port" in driver.logs(create.uid, 10)
    refused = driver.perform(make(StepKind.DESTROY, 3, spec=spec), SECRETS)
    assert (refused.state, refused.code) == (OutcomeState.REJECTED, "docker.still_running")
    _run(driver, make(StepKind.STOP, 4, spec=spec))
    assert _node(driver).exit_code == 0
    _run(driver, make(StepKind.DESTROY, 5, spec=spec, retain_data=True))
    assert driver.observe(frozenset()).nodes == ()
    volumes = set(docker_engine.out("volume", "ls", "-q").split())
    assert {v for v in volumes if v.startswith(name)} == {f"{name}-data", f"{name}-volume-extra"}
    _run(
        driver,
        make(StepKind.CREATE, 6, spec=spec, generation=2),
        make(StepKind.DESTROY, 7, spec=spec, generation=2, retain_data=False),
    )
    assert not any(v.startswith(name) for v in docker_engine.out("volume", "ls", "-q").split())


def test_a_repeated_operation_acts_once(driver: DockerDriver, make: Make) -> None:
    create, start = make(StepKind.CREATE), make(StepKind.START, 2)
    _run(driver, create, create, start)
    first = _node(driver).instance
    for _ in range(20):
        _run(driver, create, start)
    assert _node(driver).instance == first


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"epoch": 2}, "docker.stale_epoch"),
        ({"generation": 0}, "docker.stale_generation"),
        ({"lineage": "line-2"}, "docker.other_lineage"),
    ],
)
def test_what_is_fenced_is_refused_before_anything_happens(
    changes: dict[str, Any], code: str, driver: DockerDriver, make: Make
) -> None:
    _run(driver, make(StepKind.CREATE), make(StepKind.START, 2))
    before = _node(driver)
    for effect in (StepKind.STOP, StepKind.START, StepKind.DESTROY, StepKind.RELOAD):
        outcome = driver.perform(make(effect, 9, **changes), SECRETS)
        assert (outcome.state, outcome.code) == (OutcomeState.REJECTED, code)
    assert _node(driver) == before


def test_a_strangers_container_is_named_and_left_alone(
    driver: DockerDriver, make: Make, docker_engine: DockerEngine, pin: ArtifactPin
) -> None:
    """D6: a name conflict removes nothing that is not ours."""
    image = driver.stage(pin, pin.source)
    del image
    name = "fleetctl-uid0000000000001"
    stranger = docker_engine.out("create", "--name", name, "node:1.0.0", "sleep", "1")
    try:
        for effect in (StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.DESTROY):
            outcome = driver.perform(make(effect), SECRETS)
            assert (outcome.state, outcome.code) == (OutcomeState.FAILED, "docker.name_taken")
            assert stranger[:12] in outcome.detail
        assert docker_engine.inspect(name)["Id"] == stranger
        assert driver.observe(frozenset()).nodes == ()
    finally:
        docker_engine.docker("rm", name)


def test_a_taken_port_fails_the_start_and_leaves_what_was_there(
    driver: DockerDriver, make: Make, docker_engine: DockerEngine
) -> None:
    _run(driver, make(StepKind.CREATE), make(StepKind.START, 2))
    _run(driver, make(StepKind.CREATE, 3, uid="uid0000000000002", node="web-1"))
    outcome = driver.perform(make(StepKind.START, 4, uid="uid0000000000002", node="web-1"), SECRETS)
    assert outcome.state is OutcomeState.FAILED
    assert "already" in outcome.detail
    assert [n.state for n in driver.observe(frozenset()).nodes] == [NodeState.RUNNING, NodeState.STOPPED]


def test_a_container_that_exits_at_once_says_so(driver: DockerDriver, make: Make) -> None:
    spec = {"env": {"EXIT_AT_START": "7"}, "container": Container(restart="no", tmpfs=("/tmp",))}
    _run(driver, make(StepKind.CREATE, spec=spec))
    driver.perform(make(StepKind.START, 2, spec=spec), {})
    for _ in range(50):
        node = _node(driver)
        if node.state is NodeState.EXITED:
            break
        LocalTransport().run(_pause())
    assert (node.state, node.exit_code) == (NodeState.EXITED, 7)
    assert driver.lookup(make(StepKind.START, 2, spec=spec)).code == "process.exited"


def test_reload_changes_files_without_a_restart_and_shows_in_the_record(
    driver: DockerDriver, make: Make, docker_engine: DockerEngine
) -> None:
    old = {"files": (FileSpec(path="config", content="old"),), "env": {"CONFIG_FILE": "/fleetctl/config"}}
    new = {**old, "files": (FileSpec(path="config", content="new"),)}
    _run(driver, make(StepKind.CREATE, spec=old), make(StepKind.START, 2, spec=old))
    before = _node(driver)
    reload = make(StepKind.RELOAD, 3, spec=new, generation=2)
    _run(driver, reload)
    after = _node(driver)
    assert after.instance == before.instance
    assert (after.generation, after.operation) == (2, "op-3")
    assert after.fields == dict(reload.fields)
    assert driver.lookup(reload).state is OutcomeState.UNKNOWN
    assert driver.lookup(make(StepKind.RELOAD, 4, spec=old, generation=3)).state is OutcomeState.FAILED
    for _ in range(50):
        if "reloaded 1" in driver.logs(reload.uid, 20):
            break
        LocalTransport().run(_pause())
    assert "reloaded 1" in driver.logs(reload.uid, 20)
    third = {"spec": old, "generation": 3}
    _run(
        driver,
        make(StepKind.STOP, 5, **third),
        make(StepKind.DESTROY, 6, **third),
        make(StepKind.CREATE, 7, **third),
    )
    assert (_node(driver).generation, _node(driver).operation) == (3, "op-7"), (
        "the old record stays in the volume"
    )


def test_changes_by_hand_show_field_by_field(
    driver: DockerDriver, make: Make, docker_engine: DockerEngine
) -> None:
    spec = {"files": (FileSpec(path="config", content="mine"),), "limits": Limits(memory="64MiB")}
    create = make(StepKind.CREATE, spec=spec)
    _run(driver, create, make(StepKind.START, 2, spec=spec))
    name = "fleetctl-uid0000000000001"
    docker_engine.docker("update", "--memory", "128m", "--memory-swap", "256m", "--restart", "always", name)
    docker_engine.docker("exec", name, "busybox", "sh", "-c", "echo theirs > /fleetctl/config")
    docker_engine.docker("network", "create", "other")
    docker_engine.docker("network", "connect", "other", name)
    try:
        found = _node(driver).fields
    finally:
        docker_engine.docker("network", "disconnect", "-f", "other", name)
        docker_engine.docker("network", "rm", "other")
    different = {k for k in found if found[k] != create.fields.get(k)} | (set(create.fields) - set(found))
    assert different == {"limits.memory", "container.restart", "container.network", "files.config"}


def test_adoption_needs_a_place_for_the_record_and_continues_above_the_epoch(
    driver: DockerDriver, make: Make
) -> None:
    spec = {"files": (FileSpec(path="config", content="x"),)}
    _run(driver, make(StepKind.CREATE, spec=spec))
    _run(driver, make(StepKind.ADOPT, 2, spec=spec, lineage="line-2", epoch=9))
    node = _node(driver)
    assert (node.lineage, node.epoch) == ("line-2", 9)
    assert driver.perform(make(StepKind.START, 3, spec=spec), SECRETS).code == "docker.other_lineage"
    bare = driver.perform(make(StepKind.CREATE, 4, uid="uid0000000000002"), SECRETS)
    assert bare.state is OutcomeState.SUCCEEDED
    refused = driver.perform(
        make(StepKind.ADOPT, 5, uid="uid0000000000002", lineage="line-2", epoch=9), SECRETS
    )
    assert (refused.state, refused.code) == (OutcomeState.REJECTED, "docker.needs_replacement")


def test_lookup_finds_each_effect_whose_answer_was_lost(driver: DockerDriver, make: Make) -> None:
    """docs/effects.md, docker: the state after the effect proves it, and before the effect disproves it."""
    chain = [
        make(StepKind.CREATE),
        make(StepKind.START, 2),
        make(StepKind.STOP, 3),
        make(StepKind.DESTROY, 4),
    ]
    for operation in chain:
        assert driver.lookup(operation).state is OutcomeState.FAILED
        driver.perform(operation, SECRETS)
        assert driver.lookup(operation).state is OutcomeState.SUCCEEDED


def test_secrets_reach_the_container_and_nothing_else(
    driver: DockerDriver, make: Make, docker_engine: DockerEngine
) -> None:
    _run(driver, make(StepKind.CREATE), make(StepKind.START, 2))
    shown = repr(driver.observe(frozenset())) + repr(driver.lookup(make(StepKind.START, 2)))
    labels = docker_engine.inspect("fleetctl-uid0000000000001")["Config"]["Labels"]
    assert "hunter2-canary" not in shown + json.dumps(labels)
    assert "hunter2-canary" in docker_engine.out("exec", "fleetctl-uid0000000000001", "busybox", "env")


def test_an_engine_that_is_not_there_hides_nothing(tmp_path: Path) -> None:
    host = _host(url=f"unix://{tmp_path}/none.sock")
    driver = DockerDriver("engine", lambda: client(host, LocalTransport()), LocalTransport())
    seen = driver.observe(frozenset())
    assert not seen.reachable
    assert "does not answer" in (seen.error or "")


def test_tcp_with_tls_needs_the_clients_certificate(docker_engine: DockerEngine) -> None:
    folder = docker_engine.client_certificates
    tls = Tls(ca=str(folder / "ca.pem"), cert=str(folder / "cert.pem"), key=str(folder / "key.pem"))
    good = DockerDriver(
        "engine",
        lambda: client(_host(url=docker_engine.tcp_url, tls=tls), LocalTransport()),
        LocalTransport(),
    )
    assert good.observe(frozenset()).reachable
    good.close()
    with pytest.raises(DriverError):
        client(_host(url=docker_engine.tcp_url), LocalTransport())


@pytest.mark.ssh
def test_an_engine_behind_ssh_is_reached_through_our_own_connection(
    docker_engine: DockerEngine, pin: ArtifactPin, make: Make, tmp_path: Path
) -> None:
    """The engine's Unix socket over SSH: a whole life, its image included, and a probe as the host sees it."""
    if reason := sshd_missing():
        pytest.skip(reason)
    with LoopbackSshd(allow_root=True) as sshd:
        known = sshd.write_known_hosts(tmp_path / "known_hosts", "127.77.0.1")
        ssh = Ssh(
            address="127.77.0.1",
            port=sshd.port,
            user="root",
            identity_file=str(sshd.key),
            known_hosts=str(known),
            config_file="/dev/null",
        )
        host = _host(url=docker_engine.url).model_copy(update={"ssh": ssh})
        remote = registry.driver(host, "docker")
        assert isinstance(remote, DockerDriver)
        remote.stage(pin, pin.source)
        create = make(StepKind.CREATE)
        _run(remote, create, make(StepKind.START, 2))
        assert _node(remote).state is NodeState.RUNNING
        assert _healthy(remote, create)
        _run(remote, make(StepKind.STOP, 3), make(StepKind.DESTROY, 4))
        remote.close()


def test_a_container_is_drained_by_a_request_or_by_a_command_inside(driver: DockerDriver, make: Make) -> None:
    create, start = make(StepKind.CREATE), make(StepKind.START, 2)
    _run(driver, create, start)
    assert _healthy(driver, start)

    def drained(number: int, **drain: Any) -> tuple[str, str]:
        spec = {"drain": Drain(timeout="10s", **drain)}
        outcome = driver.perform(make(StepKind.DRAIN, number, spec=spec), SECRETS)
        return outcome.state.value, outcome.code

    page = DrainCall(method="GET", path="/health")
    until = Drained(http=HttpProbe(path="/health"))
    asks = CommandProbe(command=("/bin/sh", "-c", "echo asked >/tmp/drain"))
    asked = Drained(command=CommandProbe(command=("/bin/sh", "-c", "test -e /tmp/drain")))
    assert drained(3, http=page, until=until) == ("succeeded", "drain.drained")
    assert drained(4, http=page.model_copy(update={"path": "/nothing"})) == ("failed", "drain.refused")
    assert drained(5, command=asks, until=asked) == ("succeeded", "drain.drained")
    assert drained(6, command=CommandProbe(command=("/bin/sh", "-c", "exit 3"))) == (
        "failed",
        "drain.refused",
    )
    lost = make(StepKind.DRAIN, 7, spec={"drain": Drain(timeout="10s", command=asks, until=asked)})
    assert driver.lookup(lost).code == "drain.found"
    stale = make(StepKind.DRAIN, 8, epoch=2, spec={"drain": Drain(timeout="10s", http=page)})
    assert driver.perform(stale, SECRETS).code == "docker.stale_epoch"


def test_an_image_that_somebody_calls_by_another_name_is_in_use(
    driver: DockerDriver, pin: ArtifactPin, docker_engine: DockerEngine
) -> None:
    (ours,) = driver.staged((pin,))
    names = docker_engine.inspect(ours.where)["RepoTags"]
    docker_engine.docker("tag", ours.where, "somebodys:own")
    docker_engine.docker("tag", ours.where, "somebodys:other")
    try:
        (named,) = driver.staged((pin,))
        assert named.used
        assert "multiple repositories" in (driver.unstage(named) or "")
    finally:
        docker_engine.docker("rmi", "somebodys:own", "somebodys:other", check=False)
    assert docker_engine.inspect(ours.where)["RepoTags"] == names


def test_an_adoption_within_its_lineage_is_fenced_by_a_newer_epoch(driver: DockerDriver, make: Make) -> None:
    spec = {"files": (FileSpec(path="config", content="a=1\n"),)}
    _run(driver, make(StepKind.CREATE, spec=spec))
    stale = driver.perform(make(StepKind.ADOPT, 2, epoch=2, spec=spec), SECRETS)
    assert (stale.state, stale.code) == (OutcomeState.REJECTED, "docker.stale_epoch")
    _run(driver, make(StepKind.ADOPT, 3, epoch=1, lineage="line-2", spec=spec))

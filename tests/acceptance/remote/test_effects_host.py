"""docs/effects.md, table of `host`, row by row over SSH with sudo and both supervisors: what becomes of a lost answer."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any

import pytest

from executors.clock import SystemClock
from executors.driver import Operation
from executors.host.driver import HostDriver
from executors.outcome import Outcome
from executors.registry import Access
from executors.transports.ssh.transport import SshTransport
from manifests.schema.fleet import Data, Drain
from manifests.schema.host import Become, Host, Ssh
from planner.plan import StepKind
from planner.spec import ArtifactPin, NodeSpec
from tests.acceptance.remote.fleet import ROOT
from tests.acceptance.remote.lost import LosingTransport, When
from tests.executors.places import operation
from tests.lab.hosts import HostLab
from tests.lab.images import NODE_SCRIPT

HOST, PORT = "h1", 9400
CREATE, START, STOP, RELOAD = StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.RELOAD
DESTROY, ADOPT = StepKind.DESTROY, StepKind.ADOPT
BEFORE: dict[StepKind, tuple[StepKind, ...]] = {
    CREATE: (),
    START: (CREATE,),
    STOP: (CREATE, START),
    RELOAD: (CREATE, START),
    DESTROY: (CREATE,),
    ADOPT: (CREATE,),
}
_uids = iter(range(1, 1000))


class Node:
    """One node on the host: its effects, one after another, and how often it says that it was started."""

    def __init__(self, hosts: HostLab, transport: LosingTransport, supervisor: str) -> None:
        self.hosts, self.transport = hosts, transport
        self.driver = HostDriver(HOST, transport, ROOT, supervisor)
        self.uid = f"effect{next(_uids):010d}"
        self.folder = f"{ROOT}/nodes/{self.uid}"

    def stage(self) -> None:
        self.driver.stage(self.pin, str(NODE_SCRIPT))

    @property
    def pin(self) -> ArtifactPin:
        digest = f"sha256:{hashlib.sha256(NODE_SCRIPT.read_bytes()).hexdigest()}"
        return ArtifactPin(source=str(NODE_SCRIPT), digest=digest, name=NODE_SCRIPT.name)

    @property
    def artifact(self) -> str:
        return f"{ROOT}/artifacts/sha256/{self.pin.digest.removeprefix('sha256:')}/{self.pin.name}"

    def operation(self, effect: StepKind, **more: Any) -> Operation:
        env = {"PORT": str(PORT), "WWW": f"{self.folder}/data/www", "DATA_DIR": f"{self.folder}/data"}
        spec = NodeSpec(
            substrate="host",
            host=HOST,
            address="127.0.0.1",
            port=PORT,
            product="node",
            version="1.0.0",
            artifact=self.pin,
            command=("/bin/sh", self.artifact),
            env={**env, "CONFIG_FILE": f"{self.folder}/conf"},
            drain=Drain(timeout="5s"),  # type: ignore[arg-type]
            data=Data(path="data"),
        )
        return operation(effect, self.uid, spec, **more)

    def do(self, *effects: StepKind) -> None:
        for effect in effects:
            done = self.driver.perform(self.operation(effect), {})
            assert done.state == "succeeded", done

    def lose(self, when: When, effect: StepKind) -> tuple[Operation, Outcome]:
        """Performs the effect while its answer is lost."""
        more = {"lineage": "lineage-2"} if effect is ADOPT else {}
        lost = self.operation(effect, **more)
        self.transport.when = when
        answer = self.driver.perform(lost, {})
        assert answer.state == "unknown", answer
        return lost, answer

    def starts(self) -> int:
        """How often the node's own count says that it was started."""
        text = self.hosts.exec(HOST, f"cat {self.folder}/data/starts 2>/dev/null || :")
        return text.count("start")

    def close(self) -> None:
        owned = self.hosts.exec(HOST, f"grep ^lineage= {self.folder}/record 2>/dev/null || :")
        for effect in (STOP, DESTROY):
            last = self.operation(effect, retain_data=False, lineage=owned.strip().partition("=")[2])
            self.driver.perform(last, {})
        self.driver.close()


@pytest.fixture(scope="module")
def ssh(systemd_hosts: HostLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshTransport]:
    host = systemd_hosts[HOST]
    known = systemd_hosts.write_known_hosts(tmp_path_factory.mktemp("effects") / "known_hosts")
    document = Host(
        api_version="fleetctl/v1",
        kind="Host",
        name=HOST,
        ssh=Ssh(
            address=host.address,
            port=host.port,
            user=host.user,
            identity_file=str(host.key),
            known_hosts=str(known),
            config_file="/dev/null",
            become=Become(),
        ),
    )
    transport = SshTransport(document, Access(SystemClock()).ssh)
    yield transport
    transport.close()


class _Shared(LosingTransport):
    """Leaves the connection open for the next test."""

    def close(self) -> None:
        """Kept."""


@pytest.fixture(params=["process", "systemd"])
def node(request: pytest.FixtureRequest, ssh: SshTransport, systemd_hosts: HostLab) -> Iterator[Node]:
    made = Node(systemd_hosts, _Shared(ssh), request.param)
    made.stage()
    try:
        yield made
    finally:
        made.close()


def test_a_staged_artifact_whose_answer_was_lost_is_there_and_a_repeat_leaves_it_alone(node: Node) -> None:
    data = f"an artifact of {node.uid}\n".encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    path = f"{ROOT}/artifacts/{node.uid}"
    node.transport.when = When.AFTER
    with pytest.raises(Exception, match="lost the answer"):
        node.transport.put(io.BytesIO(data), len(data), digest, path)
    facts = f"cat {path}; stat -c '%i %Z' {path}"
    before = node.hosts.exec(HOST, facts)
    assert before.startswith(data.decode())
    node.transport.put(io.BytesIO(data), len(data), digest, path)
    assert node.hosts.exec(HOST, facts) == before
    node.hosts.exec(HOST, f"rm {path}")


@pytest.mark.parametrize("effect", list(BEFORE))
def test_an_answer_lost_after_the_effect_is_found_and_a_repeat_acts_no_more(
    node: Node, effect: StepKind
) -> None:
    node.do(*BEFORE[effect])
    lost, _ = node.lose(When.AFTER, effect)
    found = node.driver.lookup(lost)
    assert found.state == "succeeded", found
    again = node.driver.perform(lost, {})
    assert (again.state, again.code) == (found.state, found.code)
    assert node.starts() <= 1


@pytest.mark.parametrize("effect", list(BEFORE))
def test_an_effect_that_never_arrived_is_found_so_and_is_refused_when_it_comes_late(
    node: Node, effect: StepKind
) -> None:
    node.do(*BEFORE[effect])
    lost, _ = node.lose(When.BEFORE, effect)
    found = node.driver.lookup(lost)
    assert (found.state, found.code) == ("failed", "host.not_performed"), found
    late = node.driver.perform(lost, {})
    assert (late.state, late.code) == ("rejected", "host.barred"), late
    assert node.starts() == BEFORE[effect].count(START)


@pytest.mark.parametrize(
    ("effect", "state", "code"),
    [
        (CREATE, "failed", "host.incomplete"),
        (START, "failed", "host.not_started"),
        (STOP, "failed", "host.still_running"),
        (RELOAD, "unknown", "host.interrupted"),
        (DESTROY, "failed", "host.incomplete"),
    ],
)
def test_what_was_begun_and_cut_off_is_judged_by_facts_or_stays_unknown(
    node: Node, effect: StepKind, state: str, code: str
) -> None:
    node.do(*BEFORE[effect])
    starts = node.starts()
    lost, _ = node.lose(When.BEGUN, effect)
    for _ in range(2):
        found = node.driver.lookup(lost)
        assert (found.state, found.code) == (state, code), found
    assert node.starts() == starts

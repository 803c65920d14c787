"""The supervisor `systemd` on a real host over SSH: the conformance suite, and what only units do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from executors import registry
from executors.driver import ProbeTarget
from executors.hooks import HookCall, HookPlace
from executors.host.driver import HostDriver
from executors.host.layout import Layout
from executors.host.parse import CHANGED
from executors.host.systemd import UnitError, unit
from executors.transport import Transport
from manifests.schema.fleet import Limits
from manifests.schema.host import Host
from planner.observed import NodeState
from planner.plan import StepKind
from planner.spec import fields
from tests.executors.conformance import UID, RecordConformance
from tests.executors.places import CUT_AFTER_SIGNAL, KEYED, SECRETS, Node, Place, operation, wait_for
from tests.executors.systemd_place import ROOT, SystemdPlace
from tests.lab.hosts import HostLab

CREATE, START, STOP = StepKind.CREATE, StepKind.START, StepKind.STOP


@pytest.fixture(scope="module")
def transport(systemd_hosts: HostLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    known = systemd_hosts.write_known_hosts(tmp_path_factory.mktemp("ssh") / "known_hosts")
    lab = systemd_hosts["h1"]
    ssh = {
        "address": lab.address,
        "port": lab.port,
        "user": lab.user,
        "identity_file": str(lab.key),
        "known_hosts": str(known),
        "config_file": "/dev/null",
        "become": {"method": "sudo"},
    }
    host = Host.model_validate({"api_version": "fleetctl/v1", "kind": "Host", "name": "h1", "ssh": ssh})
    driver = registry.driver(host, "host")
    assert isinstance(driver, HostDriver)
    yield driver._transport
    driver.close()


@pytest.fixture
def place(transport: Transport) -> Iterator[SystemdPlace]:
    place = SystemdPlace(transport, 18080)
    yield place
    place.close()


@pytest.fixture
def node(place: SystemdPlace) -> Node:
    return Node(place, UID)


class TestSystemd(RecordConformance):
    repeats = 20  # each is an exec over SSH

    @pytest.fixture
    def place(self, place: Place) -> Place:
        return place

    def test_a_killed_node_is_seen_as_exited(self, node: Node, place: Place) -> None:
        """And systemd starts it again: another start of the same generation."""
        node.run()
        before = node.seen().instance
        place.kill(UID)
        wait_for(lambda: node.seen().state is not NodeState.RUNNING, "its end is seen")
        found = node.seen()
        if found.state is NodeState.EXITED:
            assert "systemd is about to start it again" in found.detail
        wait_for(lambda: node.seen().state is NodeState.RUNNING, "systemd starts it again")
        node.serves()
        assert node.seen().instance != before
        assert place.starts(UID) == 2

    def test_a_node_that_ended_starts_again_as_the_same_generation(self, node: Node, place: Place) -> None:
        """A start while systemd waits to restart it takes that over: one start, not two."""
        node.run()
        place.kill(UID)
        wait_for(lambda: node.seen().state is NodeState.EXITED, "its end is seen")
        assert node.do(START).state == "succeeded"
        node.serves()
        assert place.starts(UID) == 2


def test_the_program_gets_its_arguments_and_environment_to_the_byte(place: SystemdPlace, node: Node) -> None:
    node.run()
    show = f"/proc/$(systemctl show -p MainPID --value {place.unit(UID)})"
    arguments = place.sh(f"cat {show}/cmdline").split("\0")[1:-1]
    environment = place.sh(f"cat {show}/environ").split("\0")
    assert tuple(arguments) == node.spec.command
    assert f"TOKEN={SECRETS['env:TOKEN'].reveal()}" in environment
    assert f"GREETING={node.spec.env['GREETING']}" in environment


def test_a_node_is_confined_and_runs_as_a_dynamic_user(place: SystemdPlace, node: Node) -> None:
    node.run()
    process = f"/proc/$(systemctl show -p MainPID --value {place.unit(UID)})"
    status = place.sh(f"cat {process}/status")
    assert "NoNewPrivs:\t1" in status
    assert "Uid:\t0\t" not in status
    folder = f"{ROOT}/nodes/{UID}"
    assert place.sh(f"stat -c %a {folder}/env {folder}/conf/key").split() == ["600", "600"]
    assert place.sh(f"stat -c %u {folder}/data").strip() != "0"


def test_limits_hold_for_the_unit(place: SystemdPlace, node: Node) -> None:
    limits = Limits.model_construct(memory=64 * 2**20, open_files=77, processes=20)
    node.spec = place.spec(UID, limits=limits)
    node.run()
    said = place.sh(f"systemctl show {place.unit(UID)} -p MemoryMax -p LimitNOFILE -p TasksMax")
    assert sorted(said.split()) == ["LimitNOFILE=77", f"MemoryMax={64 * 2**20}", "TasksMax=20"]


def test_a_node_comes_back_after_a_reboot_and_a_stopped_one_does_not(
    systemd_hosts: HostLab, place: SystemdPlace, node: Node
) -> None:
    node.run()
    other = Node(place, "cccccccccccccccc")
    other.spec = place.spec("cccccccccccccccc", port=18081, env={"PORT": "18081"})
    other.run()
    other.do(STOP)
    systemd_hosts.shut_down("h1")
    systemd_hosts.power_on("h1")
    systemd_hosts.wait_running("h1")
    wait_for(lambda: node.seen().state is NodeState.RUNNING, "it runs after the reboot", timeout_s=30)
    node.serves()
    assert other.seen().state is NodeState.STOPPED


@pytest.mark.parametrize(
    "edit",
    [
        "sed -i s/RestartSec=2s/RestartSec=3s/ /etc/systemd/system/{unit}",
        "mkdir -p /etc/systemd/system/{unit}.d && echo '[Service]' >/etc/systemd/system/{unit}.d/x.conf",
        "rm /etc/systemd/system/{unit}",
    ],
)
def test_a_unit_that_was_changed_by_hand_shows_as_drift(place: SystemdPlace, node: Node, edit: str) -> None:
    node.run()
    place.sh(edit.replace("{unit}", place.unit(UID)) + " && systemctl daemon-reload")
    wanted, found = fields(node.spec, KEYED), node.seen().fields
    assert {k: found.get(k) for k in wanted | found if wanted.get(k) != found.get(k)} == {"command": CHANGED}


def test_destroy_leaves_no_unit(place: SystemdPlace, node: Node) -> None:
    node.run()
    node.do(STOP)
    assert node.do(StepKind.DESTROY).state == "succeeded"
    left = place.sh(
        f"find /etc/systemd/system -name '*{UID}*'; systemctl list-units --all --plain '*{UID}*' --no-legend"
    )
    assert left == ""


def test_a_program_that_cannot_be_executed_fails_at_once_and_is_not_tried_again(
    place: SystemdPlace, node: Node
) -> None:
    node.spec = place.spec(UID, command=("/no/such/program",))
    node.do(CREATE)
    outcome = node.do(START)
    assert (outcome.state, outcome.code) == ("failed", "process.exited")
    state = place.sh(f"systemctl show -p ActiveState --value {place.unit(UID)}").strip()
    assert state in ("inactive", "failed")


def test_a_start_killed_after_systemd_runs_it_is_found(place: SystemdPlace, node: Node) -> None:
    node.do(CREATE)
    cut = node.operation(START)
    place.run_cut(cut, "finish() { kill -KILL $$; }")
    found = node.driver.lookup(cut)
    assert (found.state, found.code) == ("succeeded", "host.found")
    assert place.starts(UID) == 1


def test_a_stop_killed_while_draining_is_seen_through_by_systemd(place: SystemdPlace, node: Node) -> None:
    node.run()
    cut = node.operation(STOP)
    place.run_cut(cut, CUT_AFTER_SIGNAL)
    wait_for(lambda: node.driver.lookup(cut).state != "unknown", "the unit has ended")
    found = node.driver.lookup(cut)
    assert (found.state, found.code) == ("succeeded", "host.found")


def test_a_probe_counts_only_for_the_start_that_is_meant(place: SystemdPlace, node: Node) -> None:
    node.run()
    first = node.seen().instance
    place.kill(UID)
    wait_for(lambda: node.seen().instance != first, "systemd has started it again")
    node.serves()
    assert node.driver.probe(ProbeTarget(UID, node.spec, first)).state == "failing"


def test_a_node_changes_its_supervisor_with_its_next_generation(place: SystemdPlace, node: Node) -> None:
    node.run()
    node.do(STOP)
    process = HostDriver("h1", place.transport, ROOT, "process")
    spec = node.spec
    made = process.perform(operation(CREATE, UID, spec, generation=2), SECRETS)
    assert made.state == "succeeded"
    assert process.perform(operation(START, UID, spec, generation=2), SECRETS).state == "succeeded"
    node.serves()
    assert place.sh(f"ls /etc/systemd/system/{place.unit(UID)} 2>/dev/null; true") == ""
    assert process.perform(operation(STOP, UID, spec, generation=2), SECRETS).state == "succeeded"


def test_a_root_with_spaces_is_refused_for_units(place: SystemdPlace) -> None:
    with pytest.raises(UnitError):
        unit(Layout("/srv/with space"), operation(CREATE, UID, place.spec(UID)))


def test_a_hook_runs_once_on_the_host_in_the_folder_of_its_node(place: SystemdPlace, node: Node) -> None:
    node.do(CREATE)
    driver = place.driver()
    assert isinstance(driver, HookPlace)
    words = ("sh", "-c", 'printf x >>count; echo "$FLEETCTL_NODE in $(pwd)"; exit 3')
    call = HookCall("op-hook", 1, 1, "backup", words, 20.0, "host", UID, {"FLEETCTL_NODE": "n0"})
    for _ in range(2):
        outcome = driver.hooks().perform(call)
        assert (outcome.state, outcome.code) == ("failed", "hook.failed")
        assert f"n0 in {ROOT}/nodes/{UID}" in outcome.detail
    assert driver.hooks().lookup(call).evidence["exit_code"] == 3
    assert place.sh(f"cat {ROOT}/nodes/{UID}/count; rm -r {ROOT}/hooks/op-hook") == "x"

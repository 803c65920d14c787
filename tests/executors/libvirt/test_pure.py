"""The pure parts: names, definitions, what is read back from them, addresses, and what states prove."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from executors.driver import Operation
from executors.libvirt import address, definition, evidence, kept, metadata, names, observe
from executors.libvirt.evidence import State
from executors.libvirt.kept import Kept
from executors.libvirt.read_back import Surroundings, read_back
from manifests.schema.domain import Boot, DataVolume, Domain, Network
from planner.observed import NodeState
from planner.plan import StepKind
from planner.spec import NodeSpec, fields
from tests.executors.libvirt.nodes import KERNEL, UID, artifact, domain, operation, spec

PLACE = definition.Place("/pool")
CREATE, START, STOP, RELOAD, DESTROY, ADOPT = (
    StepKind.CREATE,
    StepKind.START,
    StepKind.STOP,
    StepKind.RELOAD,
    StepKind.DESTROY,
    StepKind.ADOPT,
)


def volumes(of: NodeSpec) -> dict[str, int | None]:
    """The pool with all that a specification needs."""
    found: dict[str, int | None] = {names.image(pin.digest): None for pin in of.pins}
    for disk in definition.disks(UID, of, "/pool"):
        found[disk.path.removeprefix("/pool/")] = 64 * 2**20
    return found


def defined(of: NodeSpec) -> ET.Element:
    return ET.fromstring(definition.define(operation(CREATE, of), PLACE))


def found_in(root: ET.Element, path: str) -> ET.Element:
    found = root.find(path)
    assert found is not None
    return found


def seen(
    state: int = observe.RUNNING, reason: int = 0, effect: StepKind = START, **change: Any
) -> observe.Seen:
    """A domain in some state, whose last operation was of this kind."""
    root = defined(spec())
    found = metadata.find(root)
    assert found is not None
    ours = metadata.of_operation(operation(effect, **change), metadata.read(found))
    parent = root.find("metadata")
    assert parent is not None
    parent.remove(found)
    parent.append(metadata.element(ours))
    active = state in observe.ACTIVE
    return observe.Seen(
        names.domain_uuid(UID), state, reason, 7 if active else -1, root, root if active else None
    )


SPECS = {
    "kernel and initrd": spec(),
    "a disk": spec(domain=domain(boot=Boot())),
    "a kernel of the release with a disk": spec(
        domain=domain(
            boot=Boot(artifact="kernel", disk=KERNEL, disk_size="64MiB", kernel_args="root=/dev/vda")
        )
    ),
    "nothing said": spec(domain=None),
    "defaults written out": spec(domain=Domain()),
    "no seed, no agent, no log": spec(domain=domain(seed=False, agent=False, console_log=False)),
    "several networks and volumes": spec(
        domain=domain(
            networks=(Network(network="default"), Network(bridge="br1", model="e1000")),
            volumes=(DataVolume(name="b", size="64MiB"), DataVolume(name="a", size="64MiB")),
        )
    ),
    "env, and signs that XML gives a meaning": spec(
        env={"A": "<&>'\""},
        domain=domain(boot=Boot(artifact="initrd", kernel=KERNEL, kernel_args="a=<&>\"'")),
    ),
    "pc": spec(domain=domain(machine="pc")),
}


@pytest.mark.parametrize("name", SPECS)
def test_what_is_defined_is_read_back_field_by_field(name: str) -> None:
    """Otherwise an apply would be followed by a plan that is not empty."""
    of = SPECS[name]
    wanted = fields(of, {})
    assert read_back(defined(of), None, wanted, UID, Surroundings(True, volumes(of))) == wanted


EDITS = {
    "memory": ("domain.memory", "memory", "131072", "128MiB, 256MiB of it in use"),
    "currentMemory": ("domain.memory", "currentMemory", "131072", "256MiB, 128MiB of it in use"),
    "vcpu": ("domain.vcpus", "vcpu", "4", "4"),
    "cmdline": ("domain.boot.kernel_args", "os/cmdline", "other", "other"),
    "kernel": ("domain.boot.kernel", "os/kernel", "/boot/vmlinuz", "/boot/vmlinuz"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_change_by_hand_shows_in_its_field_and_nowhere_else(name: str) -> None:
    field, path, text, shown = EDITS[name]
    root, wanted = defined(spec()), fields(spec(), {})
    found = root.find(path)
    assert found is not None
    found.text = text
    around = Surroundings(True, volumes(spec()))
    assert read_back(root, None, wanted, UID, around) == {**wanted, field: shown}
    later = read_back(defined(spec()), root, wanted, UID, around)
    assert later == {**wanted, field: f"{shown} (at its next start)"}


def test_disks_and_interfaces_changed_by_hand_show() -> None:
    root, wanted = defined(spec()), fields(spec(), {})
    devices = root.find("devices")
    assert devices is not None
    stray = ET.fromstring("<disk type='file'><source file='/other/x.img'/><target dev='vdz'/></disk>")
    devices.append(stray)
    second = ET.fromstring(
        "<interface type='bridge'><source bridge='br9'/><mac address='52:54:00:00:00:01'/></interface>"
    )
    devices.append(second)
    found = read_back(root, None, wanted, UID, Surroundings(True, volumes(spec())))
    assert found == {
        **wanted,
        "domain.disks.vdz": "/other/x.img",
        "domain.networks.1": "bridge br9, virtio, 52:54:00:00:00:01",
    }


def test_a_volume_that_is_gone_from_the_pool_is_drift() -> None:
    wanted, there = fields(spec(), {}), volumes(spec())
    del there[names.data(UID, "store")]
    del there[names.image(artifact().digest)]
    found = read_back(defined(spec()), None, wanted, UID, Surroundings(True, there))
    assert found == {**wanted, "domain.volumes.store": "gone", "artifact.digest": "gone"}


def test_a_pool_that_cannot_be_read_makes_no_drift() -> None:
    wanted = fields(spec(), {})
    assert read_back(defined(spec()), None, wanted, UID, Surroundings(True, None)) == wanted


def test_not_starting_with_its_host_is_drift() -> None:
    wanted = fields(spec(), {})
    found = read_back(defined(spec()), None, wanted, UID, Surroundings(False, volumes(spec())))
    assert found == {**wanted, "domain.autostart": "false"}


def test_identity_derives_from_the_uid_alone() -> None:
    one, other = defined(spec()), defined(spec(version="2.0.0", domain=domain(memory="512MiB")))
    for path in ("uuid", "name"):
        assert one.findtext(path) == other.findtext(path)
    assert uuid.UUID(one.findtext("uuid")).version == 5
    macs = {mac.get("address") for root in (one, other) for mac in root.findall("devices/interface/mac")}
    assert macs == {names.mac(UID, 0)}
    assert names.mac(UID, 0).startswith("52:54:00:")
    assert names.domain_uuid("another") != names.domain_uuid(UID)


def test_a_template_of_the_operators_own_gets_our_identity() -> None:
    own = "<domain type='{{ accelerator }}'><uuid>00000000-0000-0000-0000-000000000000</uuid><memory unit='KiB'>{{ memory_kib }}</memory></domain>"
    root = ET.fromstring(definition.define(operation(CREATE), PLACE, own))
    assert root.findtext("uuid") == names.domain_uuid(UID)
    assert root.findtext("memory") == str(256 * 1024)
    assert metadata.find(root) is not None


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("<domain>{{ nothing }}</domain>", "'nothing' is undefined"),
        ("<domain>{% if %}</domain>", "line 1"),
        ("<domain>", "no well-formed XML"),
        ("<network/>", "<network>"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_template_that_gives_no_domain_is_refused_with_its_reason(template: str, words: str) -> None:
    with pytest.raises(definition.TemplateFailed, match=words):
        definition.define(operation(CREATE), PLACE, template)


def test_metadata_survives_its_way_through_xml() -> None:
    of = spec(env={"A": "ü <&> \u2028"}, port=8080)
    ours = metadata.of_operation(operation(CREATE, of))
    root = defined(of)
    found = metadata.find(ET.fromstring(ET.tostring(root)))
    assert found is not None
    assert metadata.read(found) == ours


def test_damaged_metadata_is_told() -> None:
    looked = seen()
    found = metadata.find(looked.now)
    assert found is not None
    del found.attrib["generation"]
    node = observe.node(looked, Surroundings())
    assert node is not None
    assert node.state is NodeState.DAMAGED
    assert "generation" in node.detail


STATES = [
    (observe.RUNNING, 1, START, NodeState.RUNNING, "running"),
    (observe.SHUTDOWN, 0, STOP, NodeState.RUNNING, "shutting down"),
    (observe.PAUSED, 1, START, NodeState.PAUSED, "paused (by a user)"),
    (observe.PAUSED, 5, START, NodeState.PAUSED, "paused (an input or output error)"),
    (observe.PMSUSPENDED, 0, START, NodeState.PAUSED, "suspended by the guest"),
    (observe.SHUTOFF, 1, START, NodeState.EXITED, "shut off (by the guest)"),
    (observe.SHUTOFF, 3, START, NodeState.EXITED, "shut off (crashed)"),
    (observe.SHUTOFF, 2, STOP, NodeState.STOPPED, "shut off (destroyed)"),
    (observe.SHUTOFF, 0, CREATE, NodeState.STOPPED, "shut off"),
    (observe.CRASHED, 0, START, NodeState.EXITED, "crashed"),
]


@pytest.mark.parametrize(("state", "reason", "effect", "expected", "words"), STATES)
def test_states_are_told_apart(
    state: int, reason: int, effect: StepKind, expected: NodeState, words: str
) -> None:
    node = observe.node(seen(state, reason, effect), Surroundings())
    assert node is not None
    assert (node.state, node.detail) == (expected, words)


def test_an_instance_is_one_start() -> None:
    """A stop under way, or an adoption, is no other start."""
    started = seen(observe.RUNNING, effect=START, operation_id="first")
    assert observe.instance(started) == "domain 7.first"
    assert observe.instance(seen(observe.SHUTOFF)) is None


def test_each_thing_that_libvirt_keeps_has_its_words_and_its_flag() -> None:
    """With the data retained, the next generation goes on with its firmware's variables and its TPM."""
    libvirt = pytest.importorskip("libvirt")
    root = defined(spec())
    assert kept.losses(kept.defined(root)) == ()
    ET.SubElement(ET.SubElement(found_in(root, "devices"), "tpm"), "backend", type="emulator")
    ET.SubElement(found_in(root, "os"), "nvram").text = "/pool/x.fd"
    found = replace(kept.defined(root), saved=True, snapshots=tuple("gfedcba"), checkpoints=("one",))
    assert [(loss.by, loss.what) for loss in kept.losses(found)] == [
        ("start", "its saved state"),
        ("removal", "7 snapshots (a, b, c, d, e, …)"),
        ("removal", "1 checkpoint (one)"),
        ("end", "its firmware's variables"),
        ("end", "what its TPM holds"),
    ]
    always = (
        libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    )
    kept_on = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM
    gone = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_TPM
    assert kept.flags(found, libvirt, retain=True) == always | kept_on
    assert kept.flags(found, libvirt, retain=False) == always | gone
    assert kept.flags(Kept(), libvirt, retain=False) == 0


def test_a_stranger_is_no_node() -> None:
    root = ET.fromstring("<domain type='qemu'><name>x</name></domain>")
    assert not observe.is_ours(observe.Seen("u", observe.RUNNING, 0, 1, root, root))


def state(of: observe.Seen) -> State:
    return State(of, of.ours)


OFF, ON = observe.SHUTOFF, observe.RUNNING
LOOKUPS: list[tuple[StepKind, observe.Seen | None, str, str]] = [
    (CREATE, None, "failed", "libvirt.not_created"),
    (CREATE, seen(OFF, effect=CREATE), "succeeded", "libvirt.created"),
    (CREATE, seen(OFF, effect=CREATE, operation_id="other"), "failed", "libvirt.not_created"),
    (START, None, "failed", "libvirt.gone"),
    (START, seen(ON), "succeeded", "libvirt.started"),
    (START, seen(OFF, 6), "failed", "libvirt.not_started"),
    (STOP, None, "succeeded", "libvirt.gone"),
    (STOP, seen(ON, effect=STOP), "failed", "libvirt.still_running"),
    (STOP, seen(OFF, 1, STOP), "succeeded", "libvirt.stopped"),
    (RELOAD, seen(ON), "failed", "libvirt.not_reloaded"),
    (DESTROY, None, "succeeded", "libvirt.gone"),
    (DESTROY, seen(OFF), "failed", "libvirt.not_removed"),
    (ADOPT, None, "failed", "libvirt.gone"),
    (ADOPT, seen(OFF), "succeeded", "libvirt.adopted"),
    (ADOPT, seen(OFF, lineage="other"), "failed", "libvirt.not_adopted"),
]


@pytest.mark.parametrize(("effect", "found", "outcome", "code"), LOOKUPS)
def test_a_state_proves_what_became_of_an_effect(
    effect: StepKind, found: observe.Seen | None, outcome: str, code: str
) -> None:
    """docs/effects.md, row by row."""
    answer = evidence.settled(operation(effect), None if found is None else state(found))
    assert (answer.state, answer.code) == (outcome, code)


FENCES: list[tuple[Operation, str]] = [
    (operation(START, epoch=1), "libvirt.stale_epoch"),
    (operation(START, epoch=5, generation=2), "libvirt.stale_generation"),
    (operation(START, epoch=5, generation=3, lineage="other"), "libvirt.other_lineage"),
]


@pytest.mark.parametrize(("late", "code"), FENCES)
def test_what_is_stale_is_refused(late: Operation, code: str) -> None:
    root = ET.fromstring(definition.define(operation(CREATE, epoch=4, generation=3), PLACE))
    found = observe.Seen("u", OFF, 0, -1, root)
    answer = evidence.fenced(late, state(found))
    assert answer is not None
    assert (answer.state, answer.code) == ("rejected", code)


def test_a_stranger_with_our_name_is_not_touched() -> None:
    root = ET.fromstring("<domain type='qemu'><name>x</name></domain>")
    answer = evidence.fenced(operation(START), State(observe.Seen("u-1", OFF, 0, -1, root), None))
    assert answer is not None
    assert answer.code == "libvirt.name_taken"
    assert "u-1" in answer.detail


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({}, None),
        ({"lo": {"addrs": [{"addr": "127.0.0.1"}, {"addr": "::1"}]}}, None),
        ({"e": {"addrs": None}}, None),
        ({"e": {"addrs": [{"addr": "fe80::1"}, {"addr": "169.254.1.1"}]}}, None),
        ({"e": {"addrs": [{"addr": "2001:db8::5"}, {"addr": "198.18.0.9"}]}}, "198.18.0.9"),
        ({"e": {"addrs": [{"addr": "2001:db8::5"}]}}, "2001:db8::5"),
        ({"e": {"addrs": [{"addr": "no address"}]}}, None),
    ],
)
def test_a_guest_is_reached_at_an_address_that_routes(given: Any, expected: str | None) -> None:
    assert address.routable(given) == expected


def test_every_outcome_of_the_driver_is_explained() -> None:
    """docs/effects.md names every code."""
    root = Path(__file__).parents[3]
    sources = (root / "executors" / "libvirt").glob("*.py")
    codes = {
        code for path in sources for code in re.findall(r'"(libvirt\.[a-z_]+)"', path.read_text("utf-8"))
    }
    assert len(codes) > 15
    page = (root / "docs" / "effects.md").read_text("utf-8")
    silent = {"libvirt.pool", "libvirt.template"}  # errors with their own words, told as `libvirt.unusable`
    assert {code for code in codes if f"`{code}`" not in page} - silent == set()


def test_sockets_and_uris() -> None:
    assert address.socket_of("qemu:///system") == "/var/run/libvirt/libvirt-sock"
    uri = "qemu+unix:///system?socket=/run/other"
    assert address.socket_of(uri) == "/run/other"
    assert address.with_socket("qemu:///system", "/tmp/s") == "qemu+unix:///system?socket=/tmp/s"
    assert address.local("qemu:///system?socket=/run/x") == "qemu+unix:///system?socket=/run/x"
    assert address.local("qemu:///system") == "qemu:///system"
    assert address.local("test:///default") == "test:///default"

"""The driver on a real libvirt with QEMU: images and disks in a pool, and one guest that answers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
pytest.importorskip("pycdlib", reason="pip install 'fleetctl[libvirt]'")

from executors import registry
from executors.command import deaf
from executors.driver import DriverError, ProbeTarget
from executors.libvirt import connection, domains, kept, names
from executors.libvirt.driver import LibvirtDriver
from executors.outcome import Outcome
from manifests.digest import sha256
from manifests.schema.domain import Boot, DataVolume, Domain, DomainAddress, Network, PinnedFile
from manifests.schema.fleet import CommandProbe, Drain, DrainCall, Drained, Health, HttpProbe, TcpProbe
from manifests.schema.host import Host, Libvirt
from planner.observed import HealthState, Loss, NodeState, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin, FileSpec, NodeSpec, fields
from tests.executors.libvirt.nodes import UID, operation
from tests.lab.guest_image import GUEST_PORT, make_disk_image
from tests.lab.libvirt_lab import LibvirtLab
from tests.lab.process import descendants, wait_until
from tests.lab.watcher import page

# Emulated, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)
BOOT_TIMEOUT_S = 200.0
# The laboratory's libvirt is shared, and a folder has one pool.
FOLDER = "mine"
SOON_S = 60.0
CREATE, START, STOP, DESTROY = StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.DESTROY


@pytest.fixture
def driver(libvirt_lab: LibvirtLab) -> Iterator[LibvirtDriver]:
    uri = f"qemu+unix:///system?socket={libvirt_lab.socket}"
    settings = Libvirt(uri=uri, pool="mine", pool_path=f"/var/lib/libvirt/{FOLDER}")
    host = Host(api_version="fleetctl/v1", kind="Host", name="vm", libvirt=settings)
    made = cast("LibvirtDriver", registry.driver(host, "qemu"))
    yield made
    if not libvirt_lab.is_up():
        libvirt_lab.start_libvirtd()
    open_ = made._connection.get()
    for found in open_.listAllDomains(0):
        if found.name() != names.domain(UID):
            continue
        if found.isActive():
            found.destroy()
        told = kept.defined(domains.parsed(found.XMLDesc(0)))
        found.undefineFlags(kept.flags(kept.asked(found, told), made._libvirt, retain=False))
    pool = made._pool.ready(open_)
    for volume in pool.listAllVolumes():
        volume.delete(0)
    made.close()


def do(driver: LibvirtDriver, effect: StepKind, of: NodeSpec, **change: Any) -> Outcome:
    return driver.perform(operation(effect, of, **change), {})


def done(driver: LibvirtDriver, effect: StepKind, of: NodeSpec, **change: Any) -> Outcome:
    outcome = do(driver, effect, of, **change)
    assert outcome.state == "succeeded", outcome
    return outcome


def seen(driver: LibvirtDriver) -> ObservedNode:
    host = driver.observe(frozenset())
    assert host.reachable, host.error
    (node,) = [n for n in host.nodes if n.uid == UID]
    return node


def pin_of(path: Path) -> ArtifactPin:
    return ArtifactPin(digest=sha256(path.read_bytes()), name=path.name, source=str(path), arch="x86_64")


def of_disk(path: Path, **domain: Any) -> NodeSpec:
    """A node on a disk image, that is never started here."""
    settings = Domain(**{"memory": "64MiB", "accelerator": "qemu", "networks": (), "seed": False, **domain})
    return NodeSpec(
        address="198.18.0.9",
        artifact=pin_of(path),
        command=("x",),
        domain=settings,
        host="vm",
        product="node",
        substrate="qemu",
        version="1.0.0",
    )


def file_of(lab: LibvirtLab, volume: str) -> Path:
    """A volume's file as this machine sees it."""
    return lab.directory / "lib" / FOLDER / volume


def volumes(driver: LibvirtDriver) -> set[str]:
    found = driver._connection.read(driver._pool.look)
    assert found is not None
    return {name for name in found.volumes if name.startswith(UID)}


# --- the pool ---------------------------------------------------------------------------------------------


def test_an_image_that_was_written_to_is_brought_again(
    driver: LibvirtDriver, libvirt_lab: LibvirtLab, tmp_path: Path
) -> None:
    """Pins hold down to the bytes: what was written to since it was verified is not run."""
    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    of = of_disk(image)
    driver.stage(of.artifact, str(image))
    driver.stage(of.artifact, str(image))
    stored = file_of(libvirt_lab, names.image(of.artifact.digest))
    assert stored.read_bytes() == image.read_bytes()
    done(driver, CREATE, of)
    time.sleep(0.05)  # so that the clock of the file system moves on
    with stored.open("r+b") as file:
        file.write(b"spoiled")
    assert do(driver, START, of).code == "artifact.digest_mismatch"
    assert seen(driver).state is NodeState.STOPPED
    driver.stage(of.artifact, str(image))
    assert stored.read_bytes() == image.read_bytes()


def test_bytes_that_are_not_the_pinned_ones_are_not_kept(driver: LibvirtDriver, tmp_path: Path) -> None:
    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    with pytest.raises(DriverError, match="has sha256:"):
        driver.stage(pin_of(image), str(other))
    assert do(driver, CREATE, of_disk(image)).code == "libvirt.image_missing"


def test_files_that_come_and_go_outside_are_seen(
    driver: LibvirtDriver, libvirt_lab: LibvirtLab, tmp_path: Path
) -> None:
    """L4: the pool is refreshed. A volume that is gone is drift, an inactive pool is started to act, not to look."""
    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    of = of_disk(image, volumes=(DataVolume(name="store", size="8MiB"),))
    driver.stage(of.artifact, str(image))
    done(driver, CREATE, of)
    assert seen(driver).fields == fields(of, {})
    file_of(libvirt_lab, names.data(UID, "store")).unlink()
    assert seen(driver).fields["domain.volumes.store"] == "gone"
    libvirt_lab.virsh("pool-destroy", "mine")
    assert seen(driver).fields == fields(of, {}), "what could not be looked at is no drift"
    assert "inactive" in libvirt_lab.out("pool-info", "mine")
    driver.stage(of.artifact, str(image))
    assert "running" in libvirt_lab.out("pool-info", "mine")


def test_memory_disks_and_cards_changed_by_hand_show_field_by_field(
    driver: LibvirtDriver, libvirt_lab: LibvirtLab, tmp_path: Path
) -> None:
    """Each under its own name, with what is there now; nothing else differs."""
    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    bridge = libvirt_lab.slot.bridge
    sizes = {"a": "8MiB", "b": "16MiB"}
    of = of_disk(
        image,
        volumes=tuple(DataVolume(name=name, size=size) for name, size in sizes.items()),
        networks=(Network(bridge=bridge),),
    )
    driver.stage(of.artifact, str(image))
    done(driver, CREATE, of)
    assert seen(driver).fields == fields(of, {})
    name = names.domain(UID)
    (file_of(libvirt_lab, "stray.img")).write_bytes(bytes(2**20))
    libvirt_lab.virsh("setmaxmem", name, "96MiB", "--config")
    libvirt_lab.virsh("setmem", name, "96MiB", "--config")
    libvirt_lab.virsh("setvcpus", name, "2", "--config", "--maximum")
    libvirt_lab.virsh("setvcpus", name, "2", "--config")
    libvirt_lab.virsh("detach-disk", name, "vdc", "--config")
    libvirt_lab.virsh("attach-disk", name, f"/var/lib/libvirt/{FOLDER}/stray.img", "vdz", "--config")
    libvirt_lab.virsh("attach-interface", name, "bridge", bridge, "--model", "e1000", "--config")
    found, wanted = seen(driver).fields, fields(of, {})
    changed = {n: found.get(n) for n in wanted | found if wanted.get(n) != found.get(n)}
    assert changed.pop("domain.networks.1", "").startswith(f"bridge {bridge}, e1000, 52:54:00:")
    assert changed == {
        "domain.memory": "96MiB",
        "domain.vcpus": "2",
        "domain.volumes.b": None,
        "domain.disks.vdz": f"/var/lib/libvirt/{FOLDER}/stray.img",
    }


def test_what_libvirt_refuses_is_told_with_what_to_do(driver: LibvirtDriver, tmp_path: Path) -> None:
    """The laboratory's libvirt has no KVM, and no network of that name."""
    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    without_kvm = of_disk(image, accelerator="kvm")
    driver.stage(without_kvm.artifact, str(image))
    outcome = do(driver, CREATE, without_kvm)
    assert outcome.code == "libvirt.refused"
    assert "say accelerator: qemu" in outcome.detail
    of = of_disk(image, networks=(Network(network="nowhere"),))
    done(driver, CREATE, of)
    outcome = do(driver, START, of)
    assert outcome.code == "libvirt.refused"
    assert "make that network" in outcome.detail


def test_overlays_are_replaced_or_kept_and_data_stays(driver: LibvirtDriver, tmp_path: Path) -> None:
    one, two = (make_disk_image(tmp_path / f"{v}.qcow2", v) for v in ("1.0.0", "2.0.0"))
    store = (DataVolume(name="store", size="8MiB"),)
    for image in (one, two):
        driver.stage(pin_of(image), str(image))

    def marked(of: NodeSpec) -> str:
        """Writes a size into the node's disk that tells whether it is the same one later."""
        volume = driver._pool.volume(driver._connection.get(), names.overlay(UID, of.artifact.digest))
        volume.resize(volume.info()[1] + 2**20, 0)
        return str(volume.info()[1])

    def size(of: NodeSpec) -> str:
        volume = driver._pool.volume(driver._connection.get(), names.overlay(UID, of.artifact.digest))
        return str(volume.info()[1])

    for policy, same in (("replaced", False), ("kept", True)):
        of = of_disk(one, volumes=store, boot=Boot(overlay=policy))
        done(driver, CREATE, of)
        mark = marked(of)
        done(driver, DESTROY, of)
        assert names.data(UID, "store") in volumes(driver)
        done(driver, CREATE, of, generation=2)
        assert (size(of) == mark) is same, policy
        done(driver, DESTROY, of, generation=2)
    # Another image begins anew also where the disk is kept: an overlay is only good over its own image.
    later = of_disk(two, volumes=store, boot=Boot(overlay="kept"))
    done(driver, CREATE, later, generation=3)
    assert volumes(driver) == {names.overlay(UID, later.artifact.digest), names.data(UID, "store")}
    done(driver, DESTROY, later, generation=3, retain_data=False)
    assert volumes(driver) == set()


def test_images_in_use_are_kept_and_others_go(driver: LibvirtDriver, tmp_path: Path) -> None:
    one, two = (make_disk_image(tmp_path / f"{v}.qcow2", v) for v in ("1.0.0", "2.0.0"))
    for image in (one, two):
        driver.stage(pin_of(image), str(image))
    done(driver, CREATE, of_disk(one))
    found = {a.digest: a for a in driver.staged(())}
    used, free = found[pin_of(one).digest], found[pin_of(two).digest]
    assert (used.used, free.used) == (True, False)
    assert driver.unstage(used) == "a domain boots from it"
    assert driver.unstage(free) is None
    assert {a.digest for a in driver.staged(())} == {used.digest}


def test_a_template_of_the_operators_own_is_used_and_held_to_what_is_declared(
    driver: LibvirtDriver, tmp_path: Path
) -> None:
    """L1: the definition is read back; a template that says something else than the keys is refused by name."""
    from importlib import resources

    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    shipped = (resources.files("executors.libvirt") / "domain.xml.j2").read_text()
    for number, (old, new, expected) in enumerate(
        [
            ('<clock offset="utc"/>', '<clock offset="localtime"/>', "libvirt.created"),
            ("<vcpu>{{ domain.vcpus }}</vcpu>", "<vcpu>3</vcpu>", "libvirt.not_as_declared"),
        ]
    ):
        assert old in shipped
        path = tmp_path / f"{number}.j2"
        path.write_text(shipped.replace(old, new))
        template = PinnedFile(source=str(path), digest=sha256(path.read_bytes()))
        of = of_disk(image, template=template)
        for pin in of.pins:
            driver.stage(pin, pin.source)
        outcome = do(driver, CREATE, of)
        assert outcome.code == expected, outcome
        if expected == "libvirt.created":
            assert "localtime" in driver._connection.get().lookupByName(names.domain(UID)).XMLDesc(0)
            done(driver, DESTROY, of)
        else:
            assert "domain.vcpus is '3', declared '1'" in outcome.detail
            assert driver.observe(frozenset()).nodes == ()


def test_what_libvirt_keeps_with_a_domain_is_seen_and_goes_with_it(
    driver: LibvirtDriver, libvirt_lab: LibvirtLab, tmp_path: Path
) -> None:
    """L2: snapshots and checkpoints go with each replacement, the firmware's variables only with the data."""
    from importlib import resources

    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    shipped = (resources.files("executors.libvirt") / "domain.xml.j2").read_text()
    variables = f"/var/lib/libvirt/{FOLDER}/{UID}.fd"
    firmware = f"<loader readonly='yes' type='pflash'>/usr/share/code.fd</loader><nvram>{variables}</nvram>"
    path = tmp_path / "firmware.j2"
    path.write_text(shipped.replace("</type>", f"</type>{firmware}", 1))
    template = PinnedFile(source=str(path), digest=sha256(path.read_bytes()))
    of = of_disk(image, template=template)
    for pin in of.pins:
        driver.stage(pin, pin.source)
    done(driver, CREATE, of)
    file_of(libvirt_lab, f"{UID}.fd").write_bytes(b"variables")
    firmwares = Loss(by="end", what="its firmware's variables")
    assert seen(driver).losses == (firmwares,)
    inside = libvirt_lab.out("dumpxml", names.domain(UID))
    for kind, more in (("snapshot", "<state>shutoff</state>"), ("checkpoint", "")):
        told = tmp_path / f"{kind}.xml"
        told.write_text(
            f"<domain{kind}><name>before</name>{more}<creationTime>1</creationTime>{inside}</domain{kind}>"
        )
        libvirt_lab.virsh(f"{kind}-create", names.domain(UID), str(told), "--redefine")
    both = (
        Loss(by="removal", what="1 snapshot (before)"),
        Loss(by="removal", what="1 checkpoint (before)"),
    )
    assert seen(driver).losses == (*both, firmwares)
    assert done(driver, DESTROY, of).detail == f"with it went: {both[0].what}, {both[1].what}"
    assert file_of(libvirt_lab, f"{UID}.fd").exists(), "the next generation goes on with them"
    done(driver, CREATE, of, generation=2)
    outcome = done(driver, DESTROY, of, generation=2, retain_data=False)
    assert outcome.detail == f"with it went: {firmwares.what}"
    assert not file_of(libvirt_lab, f"{UID}.fd").exists()


def test_a_libvirt_that_hangs_is_unreachable_within_a_bound(
    libvirt_lab: LibvirtLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts and says nothing: a look ends, and the next one works when it goes on."""
    monkeypatch.setattr(connection, "OPEN_TIMEOUT_S", 1.0)
    settings = Libvirt(uri=f"qemu+unix:///system?socket={libvirt_lab.socket}")
    host = Host(api_version="fleetctl/v1", kind="Host", name="vm", libvirt=settings)
    assert libvirt_lab._libvirtd is not None
    pid = descendants(libvirt_lab._libvirtd.pid)[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        found = registry.reader(host, "qemu").observe(frozenset())
    finally:
        # The nsenter in front of it has stopped with it.
        for each in (libvirt_lab._libvirtd.pid, pid):
            os.kill(each, signal.SIGCONT)
    assert not found.reachable
    assert "does not answer within 1 s" in (found.error or "")
    assert registry.reader(host, "qemu").observe(frozenset()).reachable


def test_events_are_registered_again_after_libvirtd_was_restarted(
    driver: LibvirtDriver, libvirt_lab: LibvirtLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits looks again over the new connection, and is woken by its events: nothing here looks by the clock."""
    monkeypatch.setattr(connection, "LOOK_AGAIN_S", 10 * BOOT_TIMEOUT_S)
    image = make_disk_image(tmp_path / "image.qcow2", "1.0.0")
    of = of_disk(image)
    driver.stage(of.artifact, str(image))
    done(driver, CREATE, of)
    over: list[Any] = []

    def runs() -> bool:
        def look(made: Any) -> bool:
            over.append(made)
            return bool(domains.find(made, UID, driver._libvirt).isActive())

        return driver._connection.read(look)

    answers: list[bool] = []
    uuid = names.domain_uuid(UID)
    waiting = threading.Thread(
        target=lambda: answers.append(driver._connection.wait(uuid, runs, BOOT_TIMEOUT_S))
    )
    waiting.start()
    until(lambda: over, "it looks")
    libvirt_lab.halt_libvirtd(kill=True)
    libvirt_lab.start_libvirtd()
    until(lambda: over[-1] is not over[0], "it looks over a new connection")
    libvirt_lab.virsh("start", names.domain(UID))
    waiting.join(BOOT_TIMEOUT_S)
    assert answers == [True]


# --- a guest ----------------------------------------------------------------------------------------------


@pytest.fixture
def leases(libvirt_lab: LibvirtLab) -> Iterator[str]:
    """A network of libvirt that gives addresses."""
    first = 128
    prefix = libvirt_lab.address(1).rpartition(".")[0]
    xml = f"""<network><name>leases</name><bridge name='{libvirt_lab.slot.bridge}-1'/>
      <ip address='{prefix}.{first + 1}' prefix='27'>
        <dhcp><range start='{prefix}.{first + 2}' end='{prefix}.{first + 20}'/></dhcp></ip></network>"""
    path = libvirt_lab.directory / "leases.xml"
    path.write_text(xml)
    libvirt_lab.virsh("net-create", str(path))
    yield "leases"
    libvirt_lab.virsh("net-destroy", "leases")


def until(condition: Callable[[], object], what: str, timeout_s: float = SOON_S) -> None:
    wait_until(lambda: bool(condition()), what, timeout_s=timeout_s)


class Enough(Exception):
    pass


def _console_is_followed(driver: LibvirtDriver) -> None:
    """What was on it comes first; what the guest writes then comes soon after."""
    heard = bytearray()

    def hear(data: bytes, error: bool) -> None:
        asked = bool(heard)
        heard.extend(data)
        if b"a word" in heard:
            raise Enough
        if not asked:
            driver.execute(UID, ("/bin/sh", "-c", "echo a word >/dev/ttyS0"), deaf, 30.0)

    with pytest.raises(Enough):
        driver.follow(UID, 5, hear)
    assert b"serves port" in bytes(heard).partition(b"a word")[0]


def test_a_guest_is_found_probed_and_asked_to_stop(
    driver: LibvirtDriver, libvirt_lab: LibvirtLab, leases: str, tmp_path: Path
) -> None:
    """Lease and agent tell its address; http, tcp and the agent its health; the seed reaches it; libvirtd may go
    and come back; a guest that ignores the power button is turned off after the drain.
    """
    guest = libvirt_lab.guest
    of = NodeSpec(
        address="127.0.0.1",
        artifact=pin_of(guest.initramfs),
        command=("serve",),
        files=(FileSpec(path="hello/world", content="from the seed\n"),),
        domain=Domain(
            memory="256MiB",
            accelerator="qemu",
            boot=Boot(
                artifact="initrd",
                kernel=PinnedFile(source=str(guest.kernel), digest=sha256(guest.kernel.read_bytes())),
                kernel_args="console=ttyS0 panic=-1 node.STUBBORN=1",
            ),
            networks=(Network(network=leases),),
            address=DomainAddress(by="lease"),
        ),
        drain=Drain(timeout="3s"),
        health=Health(http=HttpProbe(path="/health", port=GUEST_PORT), timeout="10s"),
        host="vm",
        product="node",
        substrate="qemu",
        version="1.0.0",
    )
    for pin in of.pins:
        driver.stage(pin, pin.source)
    done(driver, CREATE, of)
    assert driver.probe(ProbeTarget(UID, of)).detail == "the domain is shut off"
    done(driver, START, of)
    early = driver.probe(ProbeTarget(UID, of))
    assert (early.state, early.detail) == (HealthState.FAILING, "no address yet (by lease)")
    modes = {
        name: file_of(libvirt_lab, name).stat().st_mode & 0o777
        for name in (names.seed(UID), names.image(of.artifact.digest))
    }
    assert modes == {names.seed(UID): 0o600, names.image(of.artifact.digest): 0o644}, "a seed is QEMU's alone"
    until(
        lambda: driver.probe(ProbeTarget(UID, of)).state is HealthState.PASSING,
        "it is healthy",
        BOOT_TIMEOUT_S,
    )
    node = seen(driver)
    assert node.fields == fields(of, {})
    assert node.address is not None
    assert node.address.startswith("198.18.")
    assert page(node.address, GUEST_PORT, "/seed/hello/world", timeout_s=10) == "from the seed"
    assert "serves port" in driver.logs(UID, 100)

    def probe(**health: Any) -> tuple[str, str]:
        asked = of.model_copy(update={"health": Health(timeout="20s", **health)})
        answer = driver.probe(ProbeTarget(UID, asked, seen(driver).instance))
        return answer.state.value, answer.detail

    assert probe(tcp=TcpProbe(port=GUEST_PORT))[0] == "passing"
    assert probe(tcp=TcpProbe(port=9))[0] == "failing", "the host's own loopback is not the guest"
    until(lambda: probe(command=CommandProbe(command=("/bin/true",)))[0] == "passing", "the agent answers")
    assert probe(command=CommandProbe(command=("/bin/sh", "-c", "echo no; exit 3"))) == (
        "failing",
        "exit status 3: no",
    )
    assert driver.probe(ProbeTarget(UID, of, "domain 999.x")).state is HealthState.FAILING
    heard: list[tuple[bytes, bool]] = []
    argv = ("/bin/sh", "-c", "echo aloud; echo aside >&2; exit 7")
    assert driver.execute(UID, argv, lambda data, error: heard.append((data, error)), 30.0) == 7
    assert heard == [(b"aloud\n", False), (b"aside\n", True)]
    _console_is_followed(driver)
    by_agent = driver._connection.read(
        lambda c: driver._found(domains.find(c, UID, driver._libvirt), "agent")
    )
    assert by_agent == node.address

    def drained(**drain: Any) -> tuple[str, str]:
        asked = of.model_copy(update={"drain": Drain(timeout="20s", **drain)})
        outcome = driver.perform(operation(StepKind.DRAIN, asked), {})
        return outcome.state.value, outcome.code

    by_page = DrainCall(method="GET", path="/health", port=GUEST_PORT)
    by_words = CommandProbe(command=("/bin/sh", "-c", "echo asked"))
    until_page = Drained(http=HttpProbe(path="/health", port=GUEST_PORT))
    assert drained(http=by_page, until=until_page) == ("succeeded", "drain.drained")
    assert drained(http=by_page.model_copy(update={"path": "/nothing"})) == ("failed", "drain.refused")
    assert drained(command=by_words) == ("succeeded", "drain.asked")

    libvirt_lab.halt_libvirtd(kill=True)
    libvirt_lab.start_libvirtd()
    assert driver.probe(ProbeTarget(UID, of, node.instance)).state is HealthState.PASSING
    assert seen(driver).instance == node.instance, "the guest went on"

    began = time.monotonic()
    outcome = done(driver, STOP, of)
    assert outcome.code == "libvirt.killed"
    assert time.monotonic() - began >= 3
    assert seen(driver).state is NodeState.STOPPED
    done(driver, START, of, operation_id="again")
    until(
        lambda: probe(command=CommandProbe(command=("/bin/true",)))[0] == "passing",
        "the agent answers",
        BOOT_TIMEOUT_S,
    )
    assert of.domain is not None
    asked = of.domain.model_copy(update={"shutdown": "agent"})
    patient = of.model_copy(update={"domain": asked, "drain": Drain(timeout="90s")})
    assert done(driver, STOP, patient).code == "libvirt.drained", "its power button it ignores"
    assert "its agent was asked to shut down" in driver.logs(UID, 200)
    done(driver, START, of, operation_id="once more")
    libvirt_lab.virsh("managedsave", names.domain(UID))
    assert "saved" in seen(driver).detail
    assert seen(driver).losses == (Loss(by="start", what="its saved state"),)
    assert done(driver, START, of, operation_id="anew").detail == "with it went: its saved state"
    assert seen(driver).losses == ()
    libvirt_lab.virsh("managedsave", names.domain(UID))
    assert done(driver, DESTROY, of).detail == "with it went: its saved state"

"""A private libvirt boots guests that serve a page, and its faults happen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.guest_image import GUEST_PORT, make_disk_image
from tests.lab.libvirt_lab import LibvirtLab
from tests.lab.process import run, wait_until
from tests.lab.sshd import LoopbackSshd
from tests.lab.watcher import page

BOOT_TIMEOUT_S = 60.0
SOON_S = 30.0


@pytest.fixture
def domains(libvirt_lab: LibvirtLab) -> Iterator[LibvirtLab]:
    """The private libvirt, emptied of domains after the test."""
    yield libvirt_lab
    if not libvirt_lab.is_up():
        libvirt_lab.start_libvirtd()
    for name in libvirt_lab.out("list", "--all", "--name").split():
        libvirt_lab.virsh("destroy", name, check=False)
        libvirt_lab.virsh("undefine", name)


def disk(path: Path, device: str) -> str:
    """XML of a qcow2 disk."""
    driver = "<driver name='qemu' type='qcow2'/>"
    return f"<disk type='file' device='disk'>{driver}<source file='{path}'/><target dev='{device}' bus='virtio'/></disk>"


def wait_served(lab: LibvirtLab, number: int, path: str, content: str) -> None:
    """Wait until a guest serves what is expected."""
    address = lab.address(number)
    wait_until(
        lambda: page(address, GUEST_PORT, path) == content, f"{path} of {address}", timeout_s=BOOT_TIMEOUT_S
    )


def test_guest_serves_the_version_of_its_image_and_keeps_its_data_disk(domains: LibvirtLab) -> None:
    """Booted, turned off by its power button, and booted again; its agent answers."""
    image = make_disk_image(domains.directory / "image.qcow2", "3.1.0")
    data = domains.directory / "data.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", data, "64M"])
    disks = disk(image, "vda") + disk(data, "vdb")
    arguments = "lab.image=/dev/vda lab.data=/dev/vdb"
    domains.define(domains.domain_xml("lab-disks", 1, arguments=arguments, disks=disks))
    domains.virsh("start", "lab-disks")
    wait_served(domains, 1, "/starts", "1")
    wait_served(domains, 1, "/version", "3.1.0")
    ping = ("qemu-agent-command", "lab-disks", '{"execute":"guest-ping"}')
    wait_until(
        lambda: domains.virsh(*ping, check=False).returncode == 0, "the agent answers", timeout_s=SOON_S
    )
    domains.virsh("shutdown", "lab-disks", "--mode", "acpi")
    off = lambda: domains.out("domstate", "lab-disks") == "shut off"  # noqa: E731
    wait_until(off, "the power button turns it off", timeout_s=SOON_S)
    domains.virsh("start", "lab-disks")
    wait_served(domains, 1, "/starts", "2")


def test_guest_outlives_a_killed_libvirtd_and_its_own_crash_is_seen(domains: LibvirtLab) -> None:
    domains.define(domains.domain_xml("lab-crash", 2, arguments="node.VERSION=1.1.0"))
    domains.virsh("start", "lab-crash")
    wait_served(domains, 2, "/health", "ok")
    domains.halt_libvirtd(kill=True)
    assert not domains.is_up()
    assert page(domains.address(2), GUEST_PORT, "/version") == "1.1.0"
    domains.start_libvirtd()
    assert domains.out("domstate", "lab-crash") == "running"
    domains.kill_domain("lab-crash")
    crashed = lambda: domains.out("domstate", "lab-crash", "--reason") == "shut off (crashed)"  # noqa: E731
    wait_until(crashed, "libvirt sees the crash", timeout_s=SOON_S)


def test_login_through_sshd_sees_the_private_libvirt_at_its_usual_place(domains: LibvirtLab) -> None:
    domains.define(domains.domain_xml("lab-remote", 3))
    with LoopbackSshd(mounts_of=domains.holder_pid) as server:
        names = server.ssh("virsh --connect qemu:///system list --all --name", address="127.77.0.2")
    assert names.split() == ["lab-remote"]


def test_guest_takes_its_address_from_a_lease_of_a_libvirt_network(domains: LibvirtLab) -> None:
    """The network's own bridge and DHCP server, both inside the slot of this libvirt."""
    first = 128
    prefix = domains.address(1).rpartition(".")[0]
    xml = f"""<network><name>lab-leases</name><bridge name='{domains.slot.bridge}-0'/>
      <ip address='{prefix}.{first + 1}' prefix='27'>
        <dhcp><range start='{prefix}.{first + 2}' end='{prefix}.{first + 20}'/></dhcp></ip></network>"""
    path = domains.directory / "network.xml"
    path.write_text(xml)
    domains.virsh("net-create", str(path))
    try:
        static = f"lab.address={domains.address(4)}/25"
        domain = domains.domain_xml("lab-lease", 4).replace(static, "")
        bridge = f"<interface type='bridge'><source bridge='{domains.slot.bridge}'/>"
        domains.define(domain.replace(bridge, "<interface type='network'><source network='lab-leases'/>"))
        domains.virsh("start", "lab-lease")

        def leased() -> str:
            said = domains.out("domifaddr", "lab-lease", "--source", "lease").split()
            return said[-1].partition("/")[0] if said else ""

        wait_until(lambda: leased() != "", "a lease is given", timeout_s=BOOT_TIMEOUT_S)
        wait_until(
            lambda: page(leased(), GUEST_PORT, "/health") == "ok", "it serves there", timeout_s=BOOT_TIMEOUT_S
        )
    finally:
        domains.virsh("destroy", "lab-lease", check=False)
        domains.virsh("net-destroy", "lab-leases")

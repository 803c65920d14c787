"""`domain:` of a group — what only virtual machines have: their hardware, what they boot, where they are reached."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from manifests.schema.base import Model, Name, NonEmpty, Sha256, SizeB, Template, Text, refused

MIB = 2**20
VCPUS_MAX = 512
# libvirt names disks vda to vdz; the system's own disk and the seed take two of them.
VOLUMES_MAX = 24
BootPart = Literal["disk", "kernel", "initrd"]


def _whole_mib(size_b: int) -> int:
    if size_b < MIB or size_b % MIB:
        raise refused(
            "memory", "a domain's memory is a whole number of MiB", "write it in MiB, such as 512MiB"
        )
    return size_b


MemoryB = Annotated[SizeB, AfterValidator(_whole_mib)]


class PinnedFile(Model):
    """A file beside the manifest, or behind an https URL, and the sha256 of its bytes."""

    source: NonEmpty
    digest: Sha256


class Boot(Model):
    """What a domain boots. The release's artifact is one of the parts; the others are pinned here.

    With a kernel the domain boots directly (`initrd` and `kernel_args` go with it), and a disk is optional.
    Each node writes to an overlay of its own over the `disk`: `replaced` with the node, or `kept` as long as
    the image is the same. `format` is the image's; `disk_size` grows the node's disk beyond it.
    """

    artifact: BootPart = "disk"
    disk: PinnedFile | None = None
    kernel: PinnedFile | None = None
    initrd: PinnedFile | None = None
    kernel_args: Template = ""
    format: Literal["qcow2", "raw"] = "qcow2"
    overlay: Literal["replaced", "kept"] = "replaced"
    disk_size: SizeB | None = None


class Network(Model):
    """One interface: in a network of libvirt, or on a bridge of the host. Its address derives from the uid."""

    network: Text | None = None
    bridge: Text | None = None
    model: Text = "virtio"


class DataVolume(Model):
    """A disk of the node's own, kept when the domain is replaced; a larger size grows it."""

    name: Name
    size: SizeB


class DomainAddress(Model):
    """How the node's address is found: a lease of its libvirt network, its guest agent, or written out."""

    by: Literal["lease", "agent", "static"] = "lease"
    value: Template | None = None


class Domain(Model):
    """What only virtual machines have.

    `template` is the operator's own Jinja2 template of the domain's XML, for what the keys here do not say.
    `seed`: the node's command, env and files reach the guest as a cloud-init disk (NoCloud).
    `shutdown` is how the guest is asked to stop; `agent` gives it a channel for QEMU's guest agent.
    """

    memory: MemoryB = 1024 * MIB
    vcpus: Annotated[int, Field(ge=1, le=VCPUS_MAX)] = 1
    machine: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")] = "q35"
    accelerator: Literal["kvm", "qemu"] = "kvm"
    boot: Boot = Boot()
    networks: tuple[Network, ...] = (Network(network="default"),)
    volumes: Annotated[tuple[DataVolume, ...], Field(max_length=VOLUMES_MAX)] = ()
    seed: bool = True
    agent: bool = True
    shutdown: Literal["acpi", "agent"] = "acpi"
    console_log: bool = True
    autostart: bool = True
    address: DomainAddress = DomainAddress()
    template: PinnedFile | None = None

"""Operations and specifications of guests, for the tests here."""

from __future__ import annotations

from typing import Any

from executors.driver import Operation
from manifests.digest import sha256
from manifests.schema.domain import Boot, DataVolume, Domain, DomainAddress, Network, PinnedFile
from planner.plan import StepKind
from planner.spec import ArtifactPin, NodeSpec, fields

UID = "guestaaaaaaaaaaa"
LINEAGE = "lineage-1"
KERNEL = PinnedFile(source="/images/vmlinuz", digest=sha256(b"kernel"))


def artifact(content: bytes = b"initrd 1.0.0") -> ArtifactPin:
    return ArtifactPin(digest=sha256(content), name="initrd", source="/images/initrd", arch="x86_64")


def domain(**change: Any) -> Domain:
    """A domain that boots a kernel with the artifact as its initrd, and has one data volume."""
    values: dict[str, Any] = {
        "memory": "256MiB",
        "accelerator": "qemu",
        "boot": Boot(artifact="initrd", kernel=KERNEL, kernel_args="console=ttyS0 a=1"),
        "networks": (Network(bridge="br0"),),
        "volumes": (DataVolume(name="store", size="64MiB"),),
        "address": DomainAddress(by="static", value="198.18.0.11"),
    }
    return Domain(**{**values, **change})


def spec(**change: Any) -> NodeSpec:
    values: dict[str, Any] = {
        "address": "198.18.0.11",
        "artifact": artifact(),
        "command": ("node", "--serve"),
        "domain": domain(),
        "host": "vm",
        "product": "node",
        "substrate": "qemu",
        "version": "1.0.0",
    }
    return NodeSpec(**{**values, **change})


def operation(effect: StepKind, of: NodeSpec | None = None, **change: Any) -> Operation:
    of = of or spec()
    values: dict[str, Any] = {
        "operation_id": f"op-{effect.value}",
        "attempt": 1,
        "fleet": "guests",
        "lineage": LINEAGE,
        "epoch": 1,
        "node": "guest-0",
        "uid": UID,
        "generation": 1,
        "effect": effect,
        "spec": of,
        "fields": fields(of, {}),
    }
    return Operation(**{**values, **change})

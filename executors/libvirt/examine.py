"""doctor on a libvirt: its version, its acceleration, and its pool."""

from __future__ import annotations

from typing import Any

from executors import checkup
from executors.checkup import Check
from executors.driver import DriverError
from executors.libvirt.connection import Connection


def examine(connection: Connection, pool: str, pool_path: str) -> list[Check]:
    """Raises DriverError where it does not answer, or does not let us in."""
    try:
        return connection.read(lambda made: _read(made, connection.libvirt, pool, pool_path))
    except connection.libvirt.libvirtError as e:
        raise DriverError(f"libvirt refused: {e}") from e
    finally:
        connection.close()


def _read(made: Any, libvirt: Any, pool: str, pool_path: str) -> list[Check]:
    kind, arch = made.getType(), made.getInfo()[0]
    checks = [
        checkup.ok("libvirt", f"{_dotted(made.getLibVersion())}, {kind} {_dotted(made.getVersion())}, {arch}")
    ]
    if kind == "QEMU":
        checks.append(_acceleration(made, libvirt, arch))
    return [*checks, _pool(made, pool, pool_path)]


def _acceleration(made: Any, libvirt: Any, arch: str) -> Check:
    try:
        made.getDomainCapabilities(None, arch, None, "kvm", 0)
    except libvirt.libvirtError:
        return checkup.warning(
            "kvm",
            "is not to be had, so guests are slow and `accelerator: kvm` cannot start",
            "load kvm_intel or kvm_amd, give libvirt rights on /dev/kvm, or write `accelerator: qemu`",
        )
    return checkup.ok("kvm", "is there")


def _pool(made: Any, name: str, path: str) -> Check:
    found = next((p for p in made.listAllStoragePools(0) if p.name() == name), None)
    if found is None:
        return checkup.ok("pool", f"{name} will be made at {path}")
    if not found.isActive():
        return checkup.warning(
            "pool", f"{name} is not active; the next apply starts it", f"virsh pool-start {name}"
        )
    _, _, _, free_b = found.info()
    return checkup.ok("pool", f"{name} is active, {free_b / 2**30:.1f} GiB free")


def _dotted(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"

"""A node's own volumes: the disk over its image, its data, its seed; what is made, kept and removed."""

from __future__ import annotations

import io
from typing import Any

from executors.libvirt import names
from executors.libvirt.definition import domain_of, parts
from executors.libvirt.pool import PRIVATE, Found, Pool
from executors.outcome import Outcome, rejected
from planner.spec import NodeSpec


class Disks:
    """The volumes of nodes in one pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def place(
        self, connection: Any, uid: str, spec: NodeSpec, seed: bytes | None
    ) -> Outcome | dict[str, int | None]:
        """Makes what a generation needs and lacks. Repeating it is harmless.

        Gives a refusal, or the volumes that the specification names with the capacity of the node's own.
        """
        found = self._pool.found(connection)
        refused = self._data(connection, uid, spec, found)
        if refused is not None:
            return refused
        self._root(connection, uid, spec, found)
        if seed is not None:
            self._seed(connection, uid, seed, found)
        out = self._pool.sizes(found, measured(uid, spec))
        wanted = {names.image(digest) for digest in parts(spec).values()} | set(_wanted(uid, spec))
        return {name: size for name, size in out.items() if name in wanted}

    def remove(self, connection: Any, uid: str, spec: NodeSpec, *, retain: bool) -> None:
        """Removes what goes with a domain: all but the data, and a disk that is to be kept."""
        keep = _kept(uid, spec) if retain else None
        for name, volume in self._pool.found(connection).volumes.items():
            if not name.startswith(names.own(uid)) or name == keep:
                continue
            if not (retain and names.is_data(uid, name)):
                self._pool.delete(volume)

    def _data(self, connection: Any, uid: str, spec: NodeSpec, found: Found) -> Outcome | None:
        for wanted in domain_of(spec).volumes:
            name = names.data(uid, wanted.name)
            volume = found.volumes.get(name)
            if volume is None:
                found.volumes[name] = self._pool.make(connection, name, wanted.size, "qcow2")
                continue
            size_b = volume.info()[1]
            if size_b > wanted.size:
                return rejected(
                    "libvirt.volume_shrinks",
                    f"volume {wanted.name} has {size_b} bytes, and {wanted.size} are declared: data could be lost",
                )
            if size_b < wanted.size:
                volume.resize(wanted.size, 0)
        return None

    def _root(self, connection: Any, uid: str, spec: NodeSpec, found: Found) -> None:
        digest, keep = parts(spec).get("disk"), _kept(uid, spec)
        for name in [n for n in found.volumes if names.is_overlay(uid, n) and n != keep]:
            self._pool.delete(found.volumes.pop(name))
        if digest is None:
            return
        boot = domain_of(spec).boot
        name = names.overlay(uid, digest)
        volume = found.volumes.get(name)
        if volume is not None:
            if boot.disk_size is not None and volume.info()[1] < boot.disk_size:
                volume.resize(boot.disk_size, 0)
            return
        behind = (f"{found.path}/{names.image(digest)}", boot.format)
        found.volumes[name] = self._pool.make(connection, name, boot.disk_size, "qcow2", behind)

    def _seed(self, connection: Any, uid: str, seed: bytes, found: Found) -> None:
        """In place of one that is there; nobody but QEMU may read it."""
        name = names.seed(uid)
        old = found.volumes.get(name)
        if old is not None:
            self._pool.delete(old)
        self._pool.upload(connection, name, io.BytesIO(seed), len(seed), PRIVATE)
        # Only that it is there counts.
        found.volumes[name] = old


def measured(uid: str, spec: NodeSpec) -> list[str]:
    """The volumes whose size was declared, and is compared."""
    domain, disk = domain_of(spec), parts(spec).get("disk")
    sized = [names.data(uid, v.name) for v in domain.volumes]
    return sized + (
        [names.overlay(uid, disk)] if disk is not None and domain.boot.disk_size is not None else []
    )


def _wanted(uid: str, spec: NodeSpec) -> list[str]:
    domain, disk = domain_of(spec), parts(spec).get("disk")
    wanted = [names.overlay(uid, disk)] if disk is not None else []
    wanted += [names.data(uid, v.name) for v in domain.volumes]
    return wanted + ([names.seed(uid)] if domain.seed else [])


def _kept(uid: str, spec: NodeSpec) -> str | None:
    disk = parts(spec).get("disk")
    return names.overlay(uid, disk) if disk is not None and domain_of(spec).boot.overlay == "kept" else None

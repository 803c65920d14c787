"""A node's own volumes: the disk over its image, its data, its seed; what is made, kept and removed."""

from __future__ import annotations

from typing import Any

from executors.libvirt import names
from executors.libvirt.definition import domain_of, parts
from executors.libvirt.pool import Pool
from executors.outcome import Outcome, rejected
from planner.spec import NodeSpec


class Disks:
    """The volumes of nodes in one pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def place(self, connection: Any, uid: str, spec: NodeSpec, seed: bytes | None) -> Outcome | None:
        """Makes what a generation needs and lacks. Repeating it is harmless. Gives a refusal, or None."""
        refused = self._data(connection, uid, spec)
        if refused is not None:
            return refused
        self._root(connection, uid, spec)
        if seed is not None:
            self._pool.upload(connection, names.seed(uid), seed)
        return None

    def sizes(self, connection: Any, uid: str, spec: NodeSpec) -> dict[str, int | None]:
        """The volumes that this specification names, with the capacity of the node's own."""
        wanted: dict[str, bool] = {names.image(digest): False for digest in parts(spec).values()}
        wanted |= dict.fromkeys(self._wanted(uid, spec), True)
        out: dict[str, int | None] = {}
        for name, own in wanted.items():
            volume = self._pool.volume(connection, name)
            if volume is not None:
                out[name] = volume.info()[1] if own else None
        return out

    def remove(self, connection: Any, uid: str, spec: NodeSpec, *, retain: bool) -> None:
        """Removes what goes with a domain: all but the data, and a disk that is to be kept."""
        found = self._pool.look(connection)
        keep = self._kept(uid, spec) if retain else None
        mine = [n for n in (found.volumes if found is not None else ()) if n.startswith(names.own(uid))]
        self._pool.remove(
            connection, [n for n in mine if not (retain and names.is_data(uid, n)) and n != keep]
        )

    def _wanted(self, uid: str, spec: NodeSpec) -> list[str]:
        domain, disk = domain_of(spec), parts(spec).get("disk")
        wanted = [names.overlay(uid, disk)] if disk is not None else []
        wanted += [names.data(uid, v.name) for v in domain.volumes]
        return wanted + ([names.seed(uid)] if domain.seed else [])

    def _kept(self, uid: str, spec: NodeSpec) -> str | None:
        disk = parts(spec).get("disk")
        kept = domain_of(spec).boot.overlay == "kept" and disk is not None
        return names.overlay(uid, disk) if kept and disk is not None else None

    def _data(self, connection: Any, uid: str, spec: NodeSpec) -> Outcome | None:
        for wanted in domain_of(spec).volumes:
            name = names.data(uid, wanted.name)
            volume = self._pool.volume(connection, name)
            if volume is None:
                self._pool.make(connection, name, wanted.size, "qcow2")
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

    def _root(self, connection: Any, uid: str, spec: NodeSpec) -> None:
        digest = parts(spec).get("disk")
        keep = self._kept(uid, spec)
        found = self._pool.look(connection)
        mine = [n for n in (found.volumes if found is not None else ()) if names.is_overlay(uid, n)]
        self._pool.remove(connection, [n for n in mine if n != keep])
        if digest is None or found is None:
            return
        boot = domain_of(spec).boot
        name = names.overlay(uid, digest)
        if name == keep and name in mine:
            volume = self._pool.volume(connection, name)
            if boot.disk_size is not None and volume.info()[1] < boot.disk_size:
                volume.resize(boot.disk_size, 0)
            return
        behind = (f"{found.path}/{names.image(digest)}", boot.format)
        self._pool.make(connection, name, boot.disk_size, "qcow2", behind)

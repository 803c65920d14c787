"""A storage pool: pinned images by digest, each node's own volumes, and the logs beside them.

A file is uploaded under its final name, read back, and only then marked by an empty volume beside it. What
has no mark, or was written to since, was never verified and is brought again.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from executors.clock import Clock
from executors.driver import DriverError, StagedArtifact
from executors.libvirt import names

# A pool cannot be refreshed while somebody uploads into it; that ends.
REFRESH_ATTEMPTS = 20
REFRESH_RETRY_S = 0.25
CHUNK_B = 256 * 1024
# A template larger than this is none.
TEMPLATE_MAX_B = 4 * 2**20
READABLE, PRIVATE = "0644", "0600"


class PoolError(DriverError):
    """A storage pool, or a volume in it, cannot be used."""

    code = "libvirt.pool"


@dataclass(frozen=True, slots=True)
class Found:
    """The pool as one look found it: its folder, and its volumes by name."""

    path: str
    volumes: dict[str, Any]


class Pool:
    """One storage pool of one connection. `connect` gives a connection that is alive."""

    def __init__(self, name: str, path: str, libvirt: Any, clock: Clock) -> None:
        self._name = name
        self._path = path
        self._libvirt = libvirt
        self._clock = clock
        self._lock = threading.RLock()
        self._ready: tuple[Any, Any] = (None, None)

    def look(self, connection: Any) -> Found | None:
        """The pool with its volumes, refreshed; None when it is not there, or not active. Starts nothing."""
        pool = self._find(connection)
        if pool is None or not pool.isActive():
            return None
        self._refresh(pool)
        return Found(_path(pool), {v.name(): v for v in pool.listAllVolumes()})

    def ready(self, connection: Any) -> Any:
        """The pool, made and started where it has to be. Raises libvirtError."""
        with self._lock:
            pool = self._ready[1] if self._ready[0] is connection else self._find(connection)
            if pool is None:
                xml = (
                    f"<pool type='dir'><name>{escape(self._name)}</name>"
                    f"<target><path>{escape(self._path)}</path></target></pool>"
                )
                pool = self._defined(connection, xml)
            if not pool.isActive():
                # Its folder may have gone with a reboot; building one that is there changes nothing.
                with contextlib.suppress(self._libvirt.libvirtError):
                    pool.build(0)
                self._up(pool)
                pool.setAutostart(1)
                self._refresh(pool)
            self._ready = (connection, pool)
            return pool

    def _defined(self, connection: Any, xml: str) -> Any:
        try:
            return connection.storagePoolDefineXML(xml, 0)
        except self._libvirt.libvirtError as e:
            if "conflict with pool" not in str(e):
                raise
            raise PoolError(
                f"pool {self._name} cannot be made at {self._path}: {e}",
                hint="name that pool in the Host document (libvirt.pool), or another folder (libvirt.pool_path)",
            ) from e

    def path(self, connection: Any) -> str:
        """The folder of the pool that is ready."""
        return _path(self.ready(connection))

    def volume(self, connection: Any, name: str) -> Any:
        """One volume, or None; looked for again on the disk when libvirt does not know it."""
        pool = self.ready(connection)
        found = self._lookup(pool, name)
        if found is None:
            self._refresh(pool)
            found = self._lookup(pool, name)
        return found

    def has_image(self, connection: Any, digest: str) -> bool:
        """Whether the file of this digest is there and verified, and untouched since."""
        image = self.volume(connection, names.image(digest))
        mark = self.volume(connection, names.image(digest) + names.VERIFIED) if image is not None else None
        if image is None or mark is None:
            return False
        try:
            return _written_s(image) <= _written_s(mark)
        except self._libvirt.libvirtError as e:
            if not self._is_gone(e):
                raise
            return False

    def bring(self, connection: Any, digest: str, local: Path) -> None:
        """Uploads a file under its digest's name, reads it back and marks it. Raises PoolError, libvirtError."""
        if self.has_image(connection, digest):
            return
        name = names.image(digest)
        self.remove(connection, [name + names.VERIFIED, name])
        with local.open("rb") as source:
            self._upload(connection, name, source, local.stat().st_size, READABLE)
        found = self._digest(connection, name)
        if found != digest:
            raise PoolError(f"volume {name} of pool {self._name} was uploaded, and has {found} on the host")
        self.make(connection, name + names.VERIFIED, 0, "raw")
        # Only now does libvirt see the format and the size inside.
        self._refresh(self.ready(connection))

    def upload(self, connection: Any, name: str, data: bytes) -> None:
        """Makes a volume of these bytes, in place of one of its name; nobody but QEMU may read it."""
        import io

        self.remove(connection, [name])
        self._upload(connection, name, io.BytesIO(data), len(data), PRIVATE)

    def text(self, connection: Any, name: str) -> str:
        """A small text file among the images. Raises PoolError."""
        volume = self.volume(connection, name)
        if volume is None or volume.info()[1] > TEMPLATE_MAX_B:
            raise PoolError(f"volume {name} is not there, or is no template")
        try:
            return self._download(connection, volume, 0, volume.info()[1]).decode()
        except UnicodeDecodeError as e:
            raise PoolError(f"volume {name} is no text: {e}") from e

    def tail(self, connection: Any, name: str, size_b: int) -> bytes:
        """The last bytes of a volume; nothing when there is none."""
        pool = self._find(connection)
        if pool is None or not pool.isActive():
            return b""
        self._refresh(pool)
        volume = self._lookup(pool, name)
        if volume is None:
            return b""
        whole = volume.info()[1]
        start = max(0, whole - size_b)
        return self._download(connection, volume, start, whole - start) if whole else b""

    def make(
        self,
        connection: Any,
        name: str,
        size_b: int | None,
        format_: str,
        backing: tuple[str, str] | None = None,
    ) -> Any:
        """Makes an empty volume, or an overlay over `backing` (path and format), whose size it has where no
        other is given. It must not be there.
        """
        size = "" if size_b is None else f"<capacity>{size_b}</capacity>"
        behind = ""
        if backing is not None:
            path, kind = backing
            behind = f"<backingStore><path>{escape(path)}</path><format type='{kind}'/></backingStore>"
        xml = (
            f"<volume><name>{escape(name)}</name>{size}<allocation>0</allocation>"
            f"<target><format type='{format_}'/><permissions><mode>{READABLE}</mode></permissions></target>{behind}</volume>"
        )
        return self.ready(connection).createXML(xml, 0)

    def remove(self, connection: Any, wanted: Iterable[str]) -> None:
        """Removes volumes; what is gone already is fine."""
        pool = self.ready(connection)
        for name in wanted:
            volume = self._lookup(pool, name)
            if volume is None:
                continue
            volume.delete(0)  # a file that was removed by hand counts as deleted

    def staged(self, connection: Any, used: frozenset[str]) -> tuple[StagedArtifact, ...]:
        """The verified files, and whether a domain (anybody's) has them."""
        found = self.look(connection)
        if found is None:
            return ()
        out = []
        for name, volume in sorted(found.volumes.items()):
            digest = names.image_digest(name)
            if digest is None or name.endswith(names.VERIFIED) or name + names.VERIFIED not in found.volumes:
                continue
            age_s = max(0.0, self._clock.now().timestamp() - _written_s(found.volumes[name + names.VERIFIED]))
            out.append(StagedArtifact(digest, name, volume.info()[1], age_s, used=name in used))
        return tuple(out)

    def sizes(self, found: Found) -> dict[str, int | None]:
        """The capacity of nodes' own volumes; None for images, whose size is nobody's business."""
        out: dict[str, int | None] = {}
        for name, volume in found.volumes.items():
            try:
                out[name] = None if names.image_digest(name) is not None else int(volume.info()[1])
            except self._libvirt.libvirtError as e:
                if e.get_error_code() != self._libvirt.VIR_ERR_NO_STORAGE_VOL:
                    raise  # one that went away between the list and the look is not there
        return out

    def backings(self, connection: Any) -> frozenset[str]:
        """The volumes that some other volume lies over."""
        found = self.look(connection)
        described = [v.XMLDesc(0) for v in found.volumes.values()] if found is not None else []
        paths = [ET.fromstring(xml).findtext("backingStore/path") or "" for xml in described]  # noqa: S314 - libvirt's own answer
        return frozenset(path.rpartition("/")[2] for path in paths)

    def _find(self, connection: Any) -> Any:
        try:
            return connection.storagePoolLookupByName(self._name)
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_STORAGE_POOL:
                return None
            raise

    def _up(self, pool: Any) -> None:
        """Starts the pool, which libvirt itself, or somebody else, may be starting just now."""
        if pool.isActive():
            return
        try:
            pool.create(0)
        except self._libvirt.libvirtError:
            if not pool.isActive():
                raise

    def _is_gone(self, error: Any) -> bool:
        """Whether a volume's file was removed since libvirt last looked, and not the connection lost."""
        gone = (self._libvirt.VIR_ERR_NO_STORAGE_VOL, self._libvirt.VIR_ERR_SYSTEM_ERROR)
        return error.get_error_code() in gone and error.get_error_domain() == self._libvirt.VIR_FROM_STORAGE

    def _lookup(self, pool: Any, name: str) -> Any:
        try:
            return pool.storageVolLookupByName(name)
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_STORAGE_VOL:
                return None
            raise

    def _refresh(self, pool: Any) -> None:
        with self._lock:
            self._refreshed(pool)

    def _refreshed(self, pool: Any) -> None:
        for attempt in range(REFRESH_ATTEMPTS):
            try:
                pool.refresh(0)
                return
            except self._libvirt.libvirtError as e:
                # Somebody uploads just now, or a file went away while it was looked at.
                busy = "asynchronous jobs" in str(e) or "No such file" in str(e)
                if not busy or attempt + 1 == REFRESH_ATTEMPTS:
                    raise
                self._up(pool)  # libvirt takes a pool down that it could not refresh
                self._clock.sleep(REFRESH_RETRY_S)

    def _upload(self, connection: Any, name: str, source: Any, size_b: int, mode: str) -> None:
        xml = (
            f"<volume><name>{escape(name)}</name><capacity>{size_b}</capacity>"
            f"<target><format type='raw'/><permissions><mode>{mode}</mode></permissions></target></volume>"
        )
        with self._lock:
            volume = self.ready(connection).createXML(xml, 0)
            if not size_b:
                return
            stream = connection.newStream(0)
            volume.upload(stream, 0, size_b, 0)
            stream.sendAll(lambda _stream, wanted, _opaque: source.read(wanted), None)
            stream.finish()

    def _download(self, connection: Any, volume: Any, start: int, size_b: int) -> bytes:
        out = bytearray()
        stream = connection.newStream(0)
        volume.download(stream, start, size_b, 0)
        stream.recvAll(lambda _stream, data, _opaque: out.extend(data), None)
        stream.finish()
        return bytes(out)

    def _digest(self, connection: Any, name: str) -> str:
        hasher = hashlib.sha256()
        stream = connection.newStream(0)
        self.volume(connection, name).download(stream, 0, 0, 0)
        stream.recvAll(lambda _stream, data, _opaque: hasher.update(data), None)
        stream.finish()
        return f"sha256:{hasher.hexdigest()}"


def _path(pool: Any) -> str:
    return ET.fromstring(pool.XMLDesc(0)).findtext("target/path") or ""  # noqa: S314 - libvirt's own answer


def _written_s(volume: Any) -> float:
    """When its bytes were last written, by the host's clock."""
    text = ET.fromstring(volume.XMLDesc(0)).findtext("target/timestamps/mtime")  # noqa: S314 - libvirt's own answer
    return float(text) if text else 0.0

"""A storage pool of one connection: its volumes, in as few calls as it takes.

What does not change is asked once per connection: the pool's handle and folder. That somebody took the pool down
shows in the first call that needs it, and it is started then.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, TypeVar
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from executors.clock import Clock
from executors.driver import DriverError

T = TypeVar("T")

# A pool cannot be refreshed while somebody uploads into it; that ends.
REFRESH_ATTEMPTS = 20
REFRESH_RETRY_S = 0.25
# What libvirt's streams carry in one message, as large as all its releases take it.
CHUNK_B = 256 * 1024
READABLE, PRIVATE = "0644", "0600"


class PoolError(DriverError):
    """A storage pool, or a volume in it, cannot be used."""

    code = "libvirt.pool"


@dataclass(frozen=True, slots=True)
class Found:
    """The pool as one look found it: its folder, and its volumes by name."""

    path: str
    volumes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Known:
    """What was learned over one connection."""

    connection: Any
    pool: Any
    path: str


class Pool:
    """One storage pool; safe for several threads."""

    def __init__(self, name: str, path: str, libvirt: Any, clock: Clock) -> None:
        self._name = name
        self._path = path
        self._libvirt = libvirt
        self._clock = clock
        self._lock = threading.RLock()
        self._known: _Known | None = None

    def look(self, connection: Any) -> Found | None:
        """The pool with its volumes, refreshed; None when it is not there, or not active. Starts nothing."""
        try:
            with self._lock:
                known = self._known
                if known is None or known.connection is not connection:
                    pool = self._find(connection)
                    if pool is None:
                        return None
                    known = _Known(connection, pool, _path(pool))
                if not self._refreshed(known.pool, starts=False):
                    self._known = None
                    return None
                self._known = known
                return Found(known.path, {v.name(): v for v in known.pool.listAllVolumes()})
        except self._libvirt.libvirtError as e:
            if not self._is_down(e):
                raise
            self._known = None
            return None

    def found(self, connection: Any) -> Found:
        """The same to act upon: made and started where it has to be. Raises libvirtError, PoolError."""

        def look(known: _Known) -> Found:
            self._refreshed(known.pool, starts=True)
            return Found(known.path, {v.name(): v for v in known.pool.listAllVolumes()})

        with self._lock:
            return self._with(connection, look)

    def ready(self, connection: Any) -> Any:
        """The pool, made and started where it has to be. Raises libvirtError, PoolError."""
        return self._ready(connection).pool

    def path(self, connection: Any) -> str:
        """The folder of the pool that is ready."""
        return self._ready(connection).path

    def volume(self, connection: Any, name: str) -> Any:
        """One volume, or None; looked for again on the disk when libvirt does not know it."""
        found = self._with(connection, partial(self._lookup, name))
        return found if found is not None else self.found(connection).volumes.get(name)

    def described(self, connection: Any, volume: Any) -> str:
        """The XML of a volume that was found, looked at anew. Raises libvirtError."""
        return self._with(connection, lambda _: str(volume.XMLDesc(0)))

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
        return self._with(connection, lambda known: known.pool.createXML(xml, 0))

    def remove(self, connection: Any, wanted: Iterable[str]) -> None:
        """Removes volumes; what is gone already is fine."""
        for name in wanted:
            volume = self._with(connection, partial(self._lookup, name))
            if volume is not None:
                self.delete(volume)

    def delete(self, volume: Any) -> None:
        """Removes one that was found; what is gone already is fine, and so is a file removed by hand."""
        try:
            volume.delete(0)
        except self._libvirt.libvirtError as e:
            if e.get_error_code() != self._libvirt.VIR_ERR_NO_STORAGE_VOL:
                raise

    def upload(self, connection: Any, name: str, source: BinaryIO, size_b: int, mode: str) -> None:
        """Makes a volume of these bytes. It must not be there."""
        xml = (
            f"<volume><name>{escape(name)}</name><capacity>{size_b}</capacity>"
            f"<target><format type='raw'/><permissions><mode>{mode}</mode></permissions></target></volume>"
        )
        with self._lock:
            volume = self._with(connection, lambda known: known.pool.createXML(xml, 0))
            if not size_b:
                return
            stream = connection.newStream(0)
            volume.upload(stream, 0, size_b, 0)
            try:
                while data := source.read(CHUNK_B):
                    while data:
                        data = data[stream.send(data) :]
            except BaseException:
                with contextlib.suppress(self._libvirt.libvirtError):
                    stream.abort()
                raise
            stream.finish()

    def read(
        self, connection: Any, volume: Any, sink: Callable[[bytes], object], start: int, size_b: int
    ) -> None:
        """The bytes of a volume in their order; `size_b` 0: to its end."""
        stream = connection.newStream(0)
        volume.download(stream, start, size_b, 0)
        stream.recvAll(lambda _stream, data, _opaque: sink(data), None)
        stream.finish()

    def tail(self, connection: Any, name: str, size_b: int) -> bytes:
        """The last bytes of a volume; nothing when there is none."""
        return self.since(connection, name, 0, size_b)[0]

    def since(self, connection: Any, name: str, start: int, size_b: int) -> tuple[bytes, int]:
        """What a volume holds from `start` on, the last `size_b` bytes of it, and where it ends.

        One that became shorter was begun anew.
        """
        found = self.look(connection)
        volume = found.volumes.get(name) if found is not None else None
        if volume is None:
            return b"", 0
        whole = int(volume.info()[1])
        if whole == start:
            return b"", whole
        start = max(0 if whole < start else start, whole - size_b)
        out = bytearray()
        if whole:
            self.read(connection, volume, out.extend, start, whole - start)
        return bytes(out), whole

    def sizes(self, found: Found, wanted: Iterable[str]) -> dict[str, int | None]:
        """All volumes, with the capacity in bytes of those that are asked for; one that went away is not there."""
        out: dict[str, int | None] = dict.fromkeys(found.volumes)
        for name in set(wanted) & found.volumes.keys():
            try:
                out[name] = int(found.volumes[name].info()[1])
            except self._libvirt.libvirtError as e:
                if e.get_error_code() != self._libvirt.VIR_ERR_NO_STORAGE_VOL:
                    raise
                del out[name]
        return out

    def is_gone(self, error: Any) -> bool:
        """Whether a volume's file was removed since libvirt last looked, and not the connection lost."""
        gone = (self._libvirt.VIR_ERR_NO_STORAGE_VOL, self._libvirt.VIR_ERR_SYSTEM_ERROR)
        return error.get_error_code() in gone and error.get_error_domain() == self._libvirt.VIR_FROM_STORAGE

    def _with(self, connection: Any, call: Callable[[_Known], T]) -> T:
        """Runs a call on the pool that is ready; where it was taken down meanwhile, on one that was started again."""
        try:
            return call(self._ready(connection))
        except self._libvirt.libvirtError as e:
            if not self._is_down(e):
                raise
            with self._lock:
                self._known = None
            return call(self._ready(connection))

    def _ready(self, connection: Any) -> _Known:
        with self._lock:
            if self._known is None or self._known.connection is not connection:
                pool = self._find(connection)
                if pool is None:
                    pool = self._defined(connection)
                if not pool.isActive():
                    # Its folder may have gone with a reboot; building one that is there changes nothing.
                    with contextlib.suppress(self._libvirt.libvirtError):
                        pool.build(0)
                    self._up(pool)
                    pool.setAutostart(1)
                self._known = _Known(connection, pool, _path(pool))
            return self._known

    def _is_down(self, error: Any) -> bool:
        """Whether the pool is not active, or not there any more. Nothing was done then."""
        down = (self._libvirt.VIR_ERR_OPERATION_INVALID, self._libvirt.VIR_ERR_NO_STORAGE_POOL)
        return error.get_error_code() in down and error.get_error_domain() in (
            self._libvirt.VIR_FROM_STORAGE,
            self._libvirt.VIR_FROM_TEST,
        )

    def _defined(self, connection: Any) -> Any:
        xml = (
            f"<pool type='dir'><name>{escape(self._name)}</name>"
            f"<target><path>{escape(self._path)}</path></target></pool>"
        )
        try:
            return connection.storagePoolDefineXML(xml, 0)
        except self._libvirt.libvirtError as e:
            if "conflict with pool" not in str(e):
                raise
            raise PoolError(
                f"pool {self._name} cannot be made at {self._path}: {e}",
                hint="name that pool in the Host document (libvirt.pool), or another folder (libvirt.pool_path)",
            ) from e

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

    def _lookup(self, name: str, known: _Known) -> Any:
        try:
            return known.pool.storageVolLookupByName(name)
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_STORAGE_VOL:
                return None
            raise

    def _refreshed(self, pool: Any, *, starts: bool) -> bool:
        """Has libvirt look at the folder again; False: the pool is down, and is not to be started."""
        for attempt in range(REFRESH_ATTEMPTS):
            try:
                pool.refresh(0)
            except self._libvirt.libvirtError as e:
                if self._is_down(e) and not starts:
                    return False
                # Somebody uploads just now, or a file went away while it was looked at.
                busy = "asynchronous jobs" in str(e) or "No such file" in str(e)
                if not busy or attempt + 1 == REFRESH_ATTEMPTS:
                    raise
                self._up(pool)  # libvirt takes a pool down that it could not refresh
                self._clock.sleep(REFRESH_RETRY_S)
            else:
                return True
        raise AssertionError("the last attempt returned or raised")


def _path(pool: Any) -> str:
    return ET.fromstring(pool.XMLDesc(0)).findtext("target/path") or ""  # noqa: S314 - libvirt's own answer

"""Pinned files in a pool, each at a place named after its digest.

A file is uploaded under its final name, read back, and only then marked by an empty volume beside it. What
has no mark, or was written to since, was never verified and is brought again.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from executors.clock import Clock
from executors.driver import StagedArtifact
from executors.libvirt import names
from executors.libvirt.pool import READABLE, Pool, PoolError

# A template larger than this is none.
TEMPLATE_MAX_B = 4 * 2**20


@dataclass(frozen=True, slots=True)
class _Marked:
    """An image's handle of one connection, and when it was marked, by the host's clock."""

    connection: Any
    image: Any
    marked_s: float


class Images:
    """The pinned files of one pool; safe for several threads."""

    def __init__(self, pool: Pool, libvirt: Any, clock: Clock) -> None:
        self._pool = pool
        self._libvirt = libvirt
        self._clock = clock
        self._lock = threading.Lock()
        self._marked: dict[str, _Marked] = {}

    def has(self, connection: Any, digest: str) -> bool:
        """Whether the file of this digest is there and verified, and untouched since.

        When it was marked is asked once per connection: what was not written to since then is still what was
        verified, whatever became of the mark.
        """
        with self._lock:
            known = self._marked.get(digest)
        if known is not None and known.connection is connection:
            written_s = self._written_s(connection, known.image)
            if written_s is not None and written_s <= known.marked_s:
                return True
        # Brought anew by somebody else, or touched: its mark of now tells.
        image = self._pool.volume(connection, names.image(digest))
        mark = (
            self._pool.volume(connection, names.image(digest) + names.VERIFIED) if image is not None else None
        )
        if image is None or mark is None:
            return False
        written_s, marked_s = self._written_s(connection, image), self._written_s(connection, mark)
        if written_s is None or marked_s is None or written_s > marked_s:
            return False
        with self._lock:
            self._marked[digest] = _Marked(connection, image, marked_s)
        return True

    def bring(self, connection: Any, digest: str, local: Path) -> None:
        """Uploads a file under its digest's name, reads it back and marks it. Raises PoolError, libvirtError."""
        if self.has(connection, digest):
            return
        name = names.image(digest)
        self.remove(connection, name)
        with local.open("rb") as source:
            self._pool.upload(connection, name, source, local.stat().st_size, READABLE)
        found = self._digest(connection, name)
        if found != digest:
            raise PoolError(f"volume {name} was uploaded, and has {found} on the host")
        self._pool.make(connection, name + names.VERIFIED, 0, "raw")
        # Only now does libvirt see the format and the size inside.
        self._pool.found(connection)

    def remove(self, connection: Any, name: str) -> None:
        """Removes an image by its volume's name: first the mark, since what has none is no image any more."""
        with self._lock:
            self._marked.pop(names.image_digest(name) or "", None)
        self._pool.remove(connection, [name + names.VERIFIED, name])

    def text(self, connection: Any, digest: str) -> str:
        """A small text file among the images. Raises PoolError."""
        name = names.image(digest)
        volume = self._pool.volume(connection, name)
        if volume is None or volume.info()[1] > TEMPLATE_MAX_B:
            raise PoolError(f"volume {name} is not there, or is no template")
        out = bytearray()
        self._pool.read(connection, volume, out.extend, 0, 0)
        try:
            return out.decode()
        except UnicodeDecodeError as e:
            raise PoolError(f"volume {name} is no text: {e}") from e

    def staged(self, connection: Any, used: frozenset[str]) -> tuple[StagedArtifact, ...]:
        """The verified files, and whether a domain (anybody's) has them."""
        found = self._pool.look(connection)
        if found is None:
            return ()
        out = []
        for name, volume in sorted(found.volumes.items()):
            digest = names.image_digest(name)
            mark = found.volumes.get(name + names.VERIFIED)
            if digest is None or name.endswith(names.VERIFIED) or mark is None:
                continue
            age_s = max(0.0, self._clock.now().timestamp() - (self._written_s(connection, mark) or 0.0))
            out.append(StagedArtifact(digest, name, volume.info()[1], age_s, used=name in used))
        return tuple(out)

    def backings(self, connection: Any) -> frozenset[str]:
        """The volumes that some other volume lies over."""
        found = self._pool.look(connection)
        described = [v.XMLDesc(0) for v in found.volumes.values()] if found is not None else []
        paths = [ET.fromstring(xml).findtext("backingStore/path") or "" for xml in described]  # noqa: S314 - libvirt's own answer
        return frozenset(path.rpartition("/")[2] for path in paths)

    def _written_s(self, connection: Any, volume: Any) -> float | None:
        """When its bytes were last written, by the host's clock; None: its file is gone."""
        try:
            xml = self._pool.described(connection, volume)
        except self._libvirt.libvirtError as e:
            if not self._pool.is_gone(e):
                raise
            return None
        text = ET.fromstring(xml).findtext("target/timestamps/mtime")  # noqa: S314 - libvirt's own answer
        return float(text) if text else 0.0

    def _digest(self, connection: Any, name: str) -> str:
        hasher = hashlib.sha256()
        self._pool.read(connection, self._pool.volume(connection, name), hasher.update, 0, 0)
        return f"sha256:{hasher.hexdigest()}"

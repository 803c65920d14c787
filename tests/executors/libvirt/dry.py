"""A pool for the test hypervisor, which stores no bytes: volumes are made, and believed to be what their names say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from executors.libvirt import names
from executors.libvirt.driver import LibvirtDriver
from executors.libvirt.images import Images
from executors.libvirt.pool import Pool
from planner.spec import ArtifactPin


class Dry(Pool):
    """A pool that makes volumes without their bytes."""

    def upload(self, connection: Any, name: str, source: Any, size_b: int, mode: str) -> None:
        self.make(connection, name, size_b, "raw")


class Believed(Images):
    """Images that are what their names say."""

    def _digest(self, connection: Any, name: str) -> str:
        return names.image_digest(name) or ""


def believed(made: LibvirtDriver, folder: Path, pins: Iterable[ArtifactPin]) -> LibvirtDriver:
    """The driver over a pool without bytes, with these images in it."""
    made._pool = Dry("fleetctl", "/pool", made._libvirt, made._clock)
    made._images = Believed(made._pool, made._libvirt, made._clock)
    (folder / "bytes").write_bytes(b"x")
    for pin in pins:
        made.stage(pin, str(folder / "bytes"))
    return made

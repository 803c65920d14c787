"""Manifest files that a command writes: found as `load` finds them, and replaced whole or not at all."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleetctl.cli.options import MANIFEST_SUFFIXES
from fleetctl.cli.terminal import Paint, clean
from manifests.errors import FleetctlError
from manifests.source import FILE_BYTES_MAX


class Unwritable(FleetctlError):
    """A manifest cannot be read, or cannot be written."""

    code = "manifest.unwritable"


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The manifests of files and folders, by name; folders are not searched further down. Raises Unwritable."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(
            p for p in path.iterdir() if p.suffix in MANIFEST_SUFFIXES and not p.name.startswith(".")
        )
        if not found:
            raise Unwritable(
                f"{path} has no *.yaml or *.yml; folders below it are not searched", code="file.no-manifests"
            )
        yield from found


def read(path: Path) -> bytes:
    """The bytes of a regular file. Raises Unwritable."""
    try:
        # Opened without waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unwritable(f"{path} is no regular file", code="file.not-regular")
            return file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unwritable(f"{path} cannot be read: {error.strerror}", code="file.unreadable") from error


def write(path: Path, data: bytes) -> None:
    """Puts a whole new file in the place of the old one, whose mode stays; a link stays a link. Raises Unwritable."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Unwritable(f"{path} cannot be written: {error.strerror}") from error


def difference(before: bytes, after: bytes, name: str, paint: Paint) -> str:
    """What changes, as a unified diff; empty when nothing does."""
    old, new = (clean(b.decode("utf-8", "replace")).splitlines() for b in (before, after))
    lines = difflib.unified_diff(old, new, name, name, lineterm="")
    styles = {"+": "green", "-": "red", "@": "cyan"}
    painted = [paint(styles[line[0]], line) if line[:1] in styles else line for line in lines]
    return "\n".join(painted)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

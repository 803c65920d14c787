"""The port through which manifests are read: a machine's files, or what looks like them, such as a revision's.

Paths are texts as the operator wrote them, or absolute ones that documents led to.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class NotRegular(Exception):
    """The path leads to something that has no bytes of its own: a device, a pipe."""


class Files(Protocol):
    """What `manifests.load` asks of the place that manifests lie in."""

    def is_folder(self, path: str) -> bool:
        """Whether a folder lies there."""
        ...

    def listed(self, path: str) -> list[str]:
        """The names in a folder. Raises OSError."""
        ...

    def read(self, path: str, limit_b: int) -> tuple[bytes, Hashable]:
        """The first `limit_b` bytes of a file, and what tells it from every other file.

        Raises NotRegular, OSError, or ValueError for a text that can be no path.
        """
        ...

    def pin(self, path: str) -> str | None:
        """The sha256 pin of a file's bytes, `sha256:<hex>`; None where there is no such file."""
        ...

    def readable(self, path: str) -> bool:
        """Whether an artifact may be taken to lie there."""
        ...

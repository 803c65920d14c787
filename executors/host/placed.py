"""A file of a node as it will be on its host."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """Bytes with their place. `key` is the managed field they belong to; `path` is absolute."""

    key: str
    path: str
    mode: str
    secret: bool
    data: bytes = field(repr=False)

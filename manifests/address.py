"""Typed, immutable names of things, parsed once at the door: fleet/edge, node/edge/web-0, host/h1."""

from __future__ import annotations

import re
from dataclasses import dataclass

from manifests.errors import FleetctlError

# ASCII only: names end up in file names, labels, unit names, and two names that look alike must be alike.
NAME_PATTERN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(NAME_PATTERN)


class AddressError(FleetctlError):
    """That is not an address: fleet/NAME, node/FLEET/NAME or host/NAME."""

    code = "address.invalid"


def is_name(text: str) -> bool:
    """Whether `text` is a legal name: 1-63 characters of a-z, 0-9 and inner hyphens."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class FleetAddress:
    """fleet/NAME"""

    name: str

    def __str__(self) -> str:
        return f"fleet/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class HostAddress:
    """host/NAME"""

    name: str

    def __str__(self) -> str:
        return f"host/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class GroupAddress:
    """group/FLEET/NAME"""

    fleet: str
    name: str

    def __str__(self) -> str:
        return f"group/{self.fleet}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class NodeAddress:
    """node/FLEET/NAME; node names are unique within their fleet."""

    fleet: str
    name: str

    def __str__(self) -> str:
        return f"node/{self.fleet}/{self.name}"


Address = FleetAddress | HostAddress | GroupAddress | NodeAddress


def parse(text: str) -> Address:
    """Reads an address as it is printed; raises AddressError."""
    kind, _, rest = text.partition("/")
    parts = rest.split("/")
    if all(is_name(p) for p in parts):
        if kind == "fleet" and len(parts) == 1:
            return FleetAddress(parts[0])
        if kind == "host" and len(parts) == 1:
            return HostAddress(parts[0])
        if kind == "group" and len(parts) == 2:
            return GroupAddress(parts[0], parts[1])
        if kind == "node" and len(parts) == 2:
            return NodeAddress(parts[0], parts[1])
    raise AddressError(
        f"{text!r} is not an address", hint="write fleet/NAME, group/FLEET/NAME, node/FLEET/NAME or host/NAME"
    )

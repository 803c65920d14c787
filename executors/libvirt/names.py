"""Names, UUIDs and addresses on a libvirt. All derive from the uid, so a rename needs no replacement."""

from __future__ import annotations

import hashlib
import uuid
from typing import Final

PREFIX: Final = "fleetctl"
NAMESPACE: Final = uuid.UUID("6f1f0f5c-8f3a-5b52-9d0e-2c6b1f1d7a10")
"""Of all UUIDs that are made here; another one would make every domain a stranger."""
XML_NAMESPACE: Final = "urn:fleetctl:domain:1"
"""Of our element in a domain's metadata."""
KEY: Final = "fleetctl"
# QEMU's own range of locally administered addresses.
MAC_PREFIX: Final = "52:54:00"
VERIFIED: Final = ".verified"
"""Ends the name of the empty volume that says: the image of this name was read back and has its digest."""
_IMAGE: Final = "sha256-"


def domain(uid: str) -> str:
    """The one name a node's domain can have."""
    return f"{PREFIX}-{uid}"


def domain_uuid(uid: str) -> str:
    """The one UUID a node's domain can have: libvirt never holds two of it."""
    return str(uuid.uuid5(NAMESPACE, uid))


def mac(uid: str, number: int) -> str:
    """The address of a node's `number`-th interface."""
    raw = hashlib.sha256(f"{uid}/{number}".encode()).hexdigest()
    return f"{MAC_PREFIX}:{raw[0:2]}:{raw[2:4]}:{raw[4:6]}"


def image(digest: str) -> str:
    """The volume of a pinned file: one place per digest."""
    return _IMAGE + digest.removeprefix("sha256:")


def image_digest(volume: str) -> str | None:
    """The digest that an image's volume is named after; None for other volumes."""
    name = volume.removesuffix(VERIFIED)
    return None if not name.startswith(_IMAGE) else "sha256:" + name.removeprefix(_IMAGE)


def own(uid: str) -> str:
    """What the names of all volumes of a node begin with."""
    return f"{uid}-"


def overlay(uid: str, digest: str) -> str:
    """The disk a node writes to, over the image of this digest."""
    return f"{uid}-root-{digest.removeprefix('sha256:')[:24]}.qcow2"


def is_overlay(uid: str, volume: str) -> bool:
    """Whether it is a disk over some image."""
    return volume.startswith(f"{uid}-root-")


def data(uid: str, name: str) -> str:
    """A data volume of a node."""
    return f"{uid}-data-{name}.qcow2"


def is_data(uid: str, volume: str) -> bool:
    """Whether it is a data volume of this node."""
    return volume.startswith(f"{uid}-data-")


def seed(uid: str) -> str:
    """The node's cloud-init disk."""
    return f"{uid}-seed.iso"


def console(uid: str) -> str:
    """What the node's first serial port said."""
    return f"{uid}-console.log"

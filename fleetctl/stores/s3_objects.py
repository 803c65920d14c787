"""What the objects of a remote state hold, and under which names. Pure.

    state.json                        the format, and the key of secret digests
    documents/<hex>                   a document, by its sha256
    fleets/<fleet>/lease              who holds the fleet, and the epoch
    fleets/<fleet>/seen/<machine>     since when that machine has seen the lease unchanged
    fleets/<fleet>/journal/<slot>     one append, or the fence of an epoch; slots are numbered without gaps
    fleets/<fleet>/segments/<slot>    many slots sealed into one, named by the first of them

Every object but a document begins with the sha256 (hex) of all that follows its first newline: damage is
found whatever the store does with ETags and metadata. The second line is a header in JSON, with a nonce, so
that no two writes ever have the same bytes. Slots and segments then have an entry a line: its hash, a space,
and the very bytes that were hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fleetctl.ledger.ports import Holder, Lease, StateError
from fleetctl.stores.judgement import Row, Sighting
from manifests.digest import canonical_json

VERSION = 1
STATE = "state.json"
_SLOT_DIGITS = 12

EntryRow = tuple[bytes, str]
"""An entry's bytes and their sha256 (hex), as `entries.verified` takes them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What a slot, or a segment of slots, holds. `epoch` is the highest that it was written or fenced with.

    `first` is the sequence of its first entry, `last_slot` the last slot that it stands for. A fence has no entries.
    """

    slot: int
    last_slot: int
    epoch: int
    fence: int
    first: int
    rows: tuple[EntryRow, ...]


def document_name(digest: str) -> str:
    return f"documents/{digest.removeprefix('sha256:')}"


def lease_name(fleet: str) -> str:
    return f"fleets/{fleet}/lease"


def seen_folder(fleet: str) -> str:
    return f"fleets/{fleet}/seen/"


def seen_name(fleet: str, machine: str) -> str:
    return f"{seen_folder(fleet)}{hashlib.sha256(machine.encode()).hexdigest()[:32]}"


def slots_name(fleet: str) -> str:
    return f"fleets/{fleet}/journal/"


def slot_name(fleet: str, slot: int) -> str:
    return f"{slots_name(fleet)}{slot:0{_SLOT_DIGITS}d}"


def segments_name(fleet: str) -> str:
    return f"fleets/{fleet}/segments/"


def segment_name(fleet: str, slot: int) -> str:
    return f"{segments_name(fleet)}{slot:0{_SLOT_DIGITS}d}"


def slot_number(name: str) -> int:
    """The number at the end of a slot's or segment's name; raises StateError for a name that is none."""
    text = name.rpartition("/")[2]
    if len(text) != _SLOT_DIGITS or not (text.isascii() and text.isdigit()):
        raise damaged(name, "its name is not one of ours")
    return int(text)


def encode_slot(slot: Slot, nonce: str, kind: str = "entries") -> bytes:
    """The object of a slot (`entries` or `fence`) or of a `segment`."""
    header = {
        "v": VERSION,
        "kind": kind,
        "slot": slot.slot,
        "last_slot": slot.last_slot,
        "epoch": slot.epoch,
        "fence": slot.fence,
        "first": slot.first,
        "count": len(slot.rows),
        "nonce": nonce,
    }
    return framed(header, (digest.encode() + b" " + data for data, digest in slot.rows))


def sealed_slot(was: bytes) -> bytes:
    """What is left of a slot whose entries stand in a segment: it keeps the slot taken for ever.

    It names what was there, so that a writer whose answer was lost still finds out that it was its own.
    """
    return framed({"v": VERSION, "kind": "sealed", "was": was.partition(b"\n")[0].decode("ascii")})


def is_slot(data: bytes, found: bytes) -> bool:
    """Whether what was found in a slot is this, as it was written or sealed since."""
    return found in (data, sealed_slot(data))


def decode_slot(data: bytes, name: str) -> Slot | None:
    """The slot or segment in an object, or None for one that was sealed. Raises StateError for damage."""
    header, lines = unframed(data, name)
    if header.get("kind") == "sealed":
        return None
    try:
        rows = []
        for line in lines:
            digest, _, entry = line.partition(b" ")
            rows.append((entry, digest.decode("ascii")))
        slot = Slot(
            slot=header["slot"],
            last_slot=header["last_slot"],
            epoch=header["epoch"],
            fence=header["fence"],
            first=header["first"],
            rows=tuple(rows),
        )
        whole = len(rows) == header["count"] and slot.slot == slot_number(name)
    except (KeyError, UnicodeDecodeError) as e:
        raise damaged(name, "its header is not complete") from e
    if not whole:
        raise damaged(name, "it is not what its header says")
    return slot


def encode_lease(row: Row, nonce: str) -> bytes:
    lease = None if row.lease is None else asdict(row.lease)
    return framed(
        {"v": VERSION, "epoch": row.epoch, "renewals": row.renewals, "lease": lease, "nonce": nonce},
    )


def decode_lease(data: bytes, name: str) -> Row:
    """Raises StateError for damage."""
    header, _ = unframed(data, name)
    try:
        fields = header["lease"]
        if fields is not None:
            fields = Lease(**{**fields, "holder": Holder(**fields["holder"])})
        return Row(header["epoch"], fields, header["renewals"])
    except (KeyError, TypeError) as e:
        raise damaged(name, "it does not hold a lease") from e


def encode_sighting(sighting: Sighting) -> bytes:
    return framed({"v": VERSION, **asdict(sighting)})


def decode_sighting(data: bytes, name: str) -> Sighting:
    """Raises StateError for damage."""
    header, _ = unframed(data, name)
    try:
        return Sighting(header["token"], header["machine"], header["seen_s"])
    except KeyError as e:
        raise damaged(name, "it does not hold an observation") from e


def encode_state(key: bytes, nonce: str) -> bytes:
    return framed({"v": VERSION, "kind": "fleetctl state", "secrets_key": key.hex(), "nonce": nonce})


def decode_state(data: bytes) -> bytes:
    """The key of secret digests. Raises StateError for damage, and for what is no state of ours."""
    header, _ = unframed(data, STATE)
    try:
        return bytes.fromhex(header["secrets_key"])
    except (KeyError, TypeError, ValueError) as e:
        raise damaged(STATE, "it does not hold the state's key") from e


def framed(header: Mapping[str, Any], lines: Iterable[bytes] = ()) -> bytes:
    """The object: its own sha256, the header, the lines."""
    rest = b"\n".join([canonical_json(dict(header)), *lines])
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def unframed(data: bytes, name: str) -> tuple[dict[str, Any], Sequence[bytes]]:
    """The header and the lines of an object. Raises StateError for damage and for a newer format."""
    digest, newline, rest = data.partition(b"\n")
    if not newline or hashlib.sha256(rest).hexdigest().encode() != digest:
        raise damaged(name, "its bytes do not have the sha256 that it begins with")
    first, *lines = rest.split(b"\n")
    try:
        header = json.loads(first)
    except ValueError as e:
        raise damaged(name, "its header is not JSON") from e
    if not isinstance(header, dict) or type(header.get("v")) is not int:
        raise damaged(name, "it has no version")
    if header["v"] > VERSION:
        raise StateError(
            f"{name} was written by a newer fleetctl (format {header['v']}, this one knows {VERSION})",
            hint="use the newer fleetctl for this state",
            code="state.newer",
        )
    return header, lines


def damaged(name: str, why: str) -> StateError:
    """The error for an object that cannot be trusted."""
    return StateError(
        f"the state's object {name} is damaged: {why}",
        hint="nothing was changed. Restore the object's earlier version if the bucket keeps versions, or a "
        "backup: fleetctl state restore",
        code="state.damaged",
    )


SEALED_B = len(sealed_slot(b"0" * 64))
"""Sealed slots have one size, and a slot with entries or a fence is larger: a listing tells them apart."""

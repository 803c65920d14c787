"""Every way a cell changes, as a value: ids and times are inside, so replaying one gives the same rows.

The commit log in the blob store holds these, and the database applies them; nothing else writes a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from fleetctl.cellz.words import NewEvent


@dataclass(frozen=True, slots=True)
class Create:
    """The cell's first row; applied to an existing cell it changes nothing, as in the original."""

    name: str
    metadata: str
    at: str


@dataclass(frozen=True, slots=True)
class Append:
    """Append events in order; either all of them or none."""

    events: tuple[NewEvent, ...]


@dataclass(frozen=True, slots=True)
class PutKv:
    """Set a key; `value` is JSON text."""

    key: str
    value: str
    at: str


@dataclass(frozen=True, slots=True)
class DeleteKv:
    """Remove a key if it is there."""

    key: str
    at: str


@dataclass(frozen=True, slots=True)
class MakeCheckpoint:
    """Name the present place of the log and of the key-value state."""

    id: str
    label: str
    at: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """Take the cell back to a checkpoint, or to a bare sequence when `checkpoint_id` is None."""

    checkpoint_id: str | None
    target: int | None
    event_id: str
    at: str


@dataclass(frozen=True, slots=True)
class Compact:
    """Drop the log up to `through`; messages and kv stay."""

    through: int
    event_id: str
    at: str


@dataclass(frozen=True, slots=True)
class SetAlarm:
    """Add or replace an alarm; `spec` is its JSON text (see `alarms`)."""

    id: str
    kind: str
    spec: str
    next_at: str | None
    at: str


@dataclass(frozen=True, slots=True)
class CancelAlarm:
    """Remove an alarm."""

    id: str


@dataclass(frozen=True, slots=True)
class FireAlarm:
    """Append the alarm's event under its stable id and move the alarm on; a second firing is nothing."""

    id: str
    event: NewEvent | None
    next_at: str | None
    missed: int


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """Replace the cell's metadata; `metadata` is JSON text."""

    metadata: str
    at: str


Op = (
    Create
    | Append
    | PutKv
    | DeleteKv
    | MakeCheckpoint
    | Rewind
    | Compact
    | SetAlarm
    | CancelAlarm
    | FireAlarm
    | SetMetadata
)

# More events, or payloads of more characters, are no light write.
_LIGHT_EVENTS = 128
_LIGHT_CHARACTERS = 1 << 16
_LIGHT = (PutKv, DeleteKv, MakeCheckpoint, SetMetadata)

_KINDS: dict[str, Any] = {
    "create": Create,
    "append": Append,
    "put_kv": PutKv,
    "delete_kv": DeleteKv,
    "checkpoint": MakeCheckpoint,
    "rewind": Rewind,
    "compact": Compact,
    "set_alarm": SetAlarm,
    "cancel_alarm": CancelAlarm,
    "fire_alarm": FireAlarm,
    "set_metadata": SetMetadata,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def is_light(op: Op) -> bool:
    """Return whether an op touches but a few pages, so that applying it takes less than a switch of threads."""
    if type(op) is Append:
        events = op.events
        return len(events) <= _LIGHT_EVENTS and sum(map(_characters, events)) <= _LIGHT_CHARACTERS
    return isinstance(op, _LIGHT)


def _characters(event: NewEvent) -> int:
    return len(event.payload)


def dump(op: Op) -> dict[str, Any]:
    """Return `op` as JSON data for the commit log."""
    data: dict[str, Any] = {"op": _NAMES[type(op)]}
    for name in type(op).__slots__:
        data[name] = getattr(op, name)
    return data


def load(data: dict[str, Any]) -> Op:
    """Return the op that `dump` wrote; raises KeyError or TypeError for anything else."""
    fields = {name: value for name, value in data.items() if name != "op"}
    kind = _KINDS[data["op"]]
    if kind is Append:
        return Append(tuple(NewEvent(*event) for event in fields["events"]))
    if kind is FireAlarm and fields["event"] is not None:
        fields["event"] = NewEvent(*fields["event"])
    op: Op = kind(**fields)
    return op


def encode(ops: list[Op]) -> bytes:
    """Return ops as one JSON array."""
    return orjson.dumps([dump(op) for op in ops], option=orjson.OPT_PASSTHROUGH_SUBCLASS, default=list)

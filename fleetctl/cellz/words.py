"""The nouns of a cell and the JSON they are on the wire (reference: cellz 0.2.1, types and time formats)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from fleetctl.cellz.errors import BadRequest

# An id becomes a file name and a blob key: no dot first, no slash, no case folding surprises beyond ASCII.
CELL_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
# Suffixes that this daemon puts behind an id in names of its own.
_RESERVED = (".db", ".log", ".lease", ".json", ".tmp")
_PLAIN = re.compile(r"[A-Za-z0-9_.:/ -]*")
STATUSES = ("active", "idle", "suspended", "terminated")
ROLES = {"user_message": "user", "agent_message": "assistant", "system_message": "system"}


def cell_id(text: str) -> str:
    """Return `text` if it is a cell id: 1 to 128 of `A-Z a-z 0-9 . _ -`, not starting with a dot.

    Raises BadRequest otherwise, and for an id that ends like one of the daemon's own files.
    """
    if CELL_ID.fullmatch(text) is None or text.endswith(_RESERVED):
        raise BadRequest(
            "a cell id has 1 to 128 of A-Z a-z 0-9 . _ - , does not start with a dot "
            f"and does not end in {', '.join(_RESERVED)}"
        )
    return text


class NewEvent(NamedTuple):
    """An event before it has its place in the log; `payload` is JSON text."""

    id: str
    turn_id: str | None
    event_type: str
    payload: str
    created_at: str


class Record(NamedTuple):
    """An event in the log, with its JSON text, which every reader shares."""

    sequence: int
    event_type: str
    json: str


class Message(NamedTuple):
    """One row of the projection."""

    id: str
    role: str
    content: str
    name: str | None
    tool_call_id: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class Meta:
    """CellMeta of the contract; `metadata` is JSON text, times as SQLite holds them."""

    id: str
    name: str
    status: str
    event_sequence: int
    created_at: str
    updated_at: str
    metadata: str

    def json(self) -> str:
        """Return the wire form."""
        return (
            f'{{"id":{quote(self.id)},"name":{quote(self.name)},"status":"{self.status}",'
            f'"event_sequence":{self.event_sequence},"created_at":"{zulu(self.created_at)}",'
            f'"updated_at":"{zulu(self.updated_at)}","metadata":{self.metadata}}}'
        )


def zulu(stamp: str) -> str:
    """Return a time of SQLite (`+00:00`) as JSON has it (`Z`)."""
    return stamp[:-6] + "Z" if stamp.endswith("+00:00") else stamp


def quote(text: str) -> str:
    """Return `text` as a JSON string."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return orjson.dumps(text).decode()


def event_json(sequence: int, cell: str, event: NewEvent) -> str:
    """Return EventRecord of the contract as JSON text."""
    turn = "null" if event.turn_id is None else quote(event.turn_id)
    return (
        f'{{"sequence":{sequence},"id":"{event.id}","cell_id":"{cell}","turn_id":{turn},'
        f'"event_type":{quote(event.event_type)},"payload":{event.payload},'
        f'"created_at":"{zulu(event.created_at)}"}}'
    )


def checkpoint_json(cell: str, row: tuple[str, int, str, str]) -> str:
    """Return CheckpointRecord of the contract for a row (id, sequence, label, created_at)."""
    return (
        f'{{"id":"{row[0]}","cell_id":"{cell}","sequence":{row[1]},'
        f'"label":{quote(row[2])},"created_at":"{zulu(row[3])}"}}'
    )


def message_json(message: Message) -> str:
    """Return Message of the contract; absent names are omitted, not null."""
    extra = "" if message.name is None else f',"name":{quote(message.name)}'
    if message.tool_call_id is not None:
        extra += f',"tool_call_id":{quote(message.tool_call_id)}'
    return (
        f'{{"id":"{message.id}","role":"{message.role}","content":{quote(message.content)}{extra},'
        f'"created_at":"{zulu(message.created_at)}"}}'
    )


def project(event: NewEvent) -> Message | None:
    """Return the message that an event is, or None; the contract's projection rule."""
    role = ROLES.get(event.event_type)
    if role is None:
        return None
    payload = orjson.loads(event.payload)
    fields = payload if isinstance(payload, dict) else {}
    content, name, call = fields.get("content"), fields.get("name"), fields.get("tool_call_id")
    return Message(
        event.id,
        role,
        content if isinstance(content, str) else "",
        name if isinstance(name, str) else None,
        call if isinstance(call, str) else None,
        event.created_at,
    )

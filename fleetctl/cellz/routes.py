"""What each route does. A handler takes the node and the request and returns (status, JSON text)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson

from fleetctl.cellz import alarmclock, alarms
from fleetctl.cellz.cells import fork, known, list_cells
from fleetctl.cellz.clock import plain_uuid
from fleetctl.cellz.database import DEFAULT_PAGE, CellDb
from fleetctl.cellz.errors import BadRequest, BadShape, Failed, NotFound, TooLarge
from fleetctl.cellz.export import export_json
from fleetctl.cellz.http import Request, integer, optional_text, text_field
from fleetctl.cellz.lifecycle import State
from fleetctl.cellz.node import Node
from fleetctl.cellz.ops import Append, Compact, DeleteKv, MakeCheckpoint, PutKv, Rewind, SetMetadata
from fleetctl.cellz.words import NewEvent, Record, cell_id, checkpoint_json, message_json, quote, zulu

if TYPE_CHECKING:
    from fleetctl.cellz.apply import Applied

Answer = tuple[int, str]
Handler = Callable[[Node, Request], Awaitable[Answer]]
# What `limit` means when it is above this: everything, page or not.
_LIMIT_MAX = 2**62


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


def new_event(node: Node, data: Any, at: str) -> NewEvent:
    """Return the event in a request; raises BadShape, or TooLarge for its payload."""
    if not isinstance(data, dict):
        raise BadShape("an event is a JSON object")
    event_type = text_field(data, "event_type")
    turn_id = optional_text(data, "turn_id")
    if "payload" not in data:
        raise BadShape("missing field `payload`")
    payload = orjson.dumps(data["payload"])
    if len(payload) > node.settings.max_event:
        raise TooLarge(f"a payload has {len(payload)} bytes, over the limit of {node.settings.max_event}")
    return NewEvent(node.ids.event_id(), turn_id, event_type, payload.decode(), at)


async def append_event(node: Node, request: Request) -> Answer:
    event = new_event(node, await request.json(), node.clock.stamp())
    applied = await node.write(request.cell, Append((event,)))
    return 201, f'{{"event":{applied.records[0].json}}}'


async def append_batch(node: Node, request: Request) -> Answer:
    data = await request.json()
    events = data.get("events")
    if not isinstance(events, list):
        raise BadShape("events: is not a list" if "events" in data else "missing field `events`")
    at = node.clock.stamp()
    new = tuple([new_event(node, each, at) for each in events])
    if not new:
        await node.active(request.cell)
        return 201, '{"events":[]}'
    applied = await node.write(request.cell, Append(new))
    return 201, f'{{"events":[{",".join([record.json for record in applied.records])}]}}'


async def get_events(node: Node, request: Request) -> Answer:
    query = request.query()
    since, limit, branch = (integer(query, name) for name in ("since", "limit", "branch"))

    def read(db: CellDb) -> list[Record]:
        page = DEFAULT_PAGE if limit is None else min(limit, _LIMIT_MAX)
        if branch is None:
            return db.events(since or 0, page)
        try:
            return db.branch_events(branch, since or 0, page)
        except KeyError as error:
            raise NotFound(f"branch {branch} is not in this cell") from error

    long = limit is not None and not 0 <= limit <= DEFAULT_PAGE
    records = await node.read(request.cell, read, long=long)
    return 200, f'{{"events":[{",".join([record.json for record in records])}]}}'


async def get_branches(node: Node, request: Request) -> Answer:
    current, cuts = await node.read(request.cell, lambda db: (db.branch, db.branches()))
    names = ("branch", "target_sequence", "last_sequence", "checkpoint_id", "created_at")
    return 200, _dump(
        {
            "branch": current,
            "abandoned": [dict(zip(names, (*cut[:4], zulu(cut[4])), strict=True)) for cut in cuts],
        }
    )


async def get_messages(node: Node, request: Request) -> Answer:
    messages = await node.read(request.cell, lambda db: db.messages())
    return 200, f'{{"messages":[{",".join(map(message_json, messages))}]}}'


async def get_kv(node: Node, request: Request) -> Answer:
    pairs = await node.read(request.cell, lambda db: db.kv())
    return 200, f'{{"kv":{{{",".join(f"{quote(key)}:{value}" for key, value in pairs.items())}}}}}'


async def get_key(node: Node, request: Request) -> Answer:
    value = await node.read(request.cell, lambda db: db.kv().get(request.name))
    if value is None:
        raise NotFound(f"key {request.name!r} is not set")
    return 200, f'{{"key":{quote(request.name)},"value":{value}}}'


async def put_kv(node: Node, request: Request) -> Answer:
    data = await request.json()
    key = text_field(data, "key")
    if "value" not in data:
        raise BadShape("missing field `value`")
    await node.write(request.cell, PutKv(key, _dump(data["value"]), node.clock.stamp()))
    return 200, '{"status":"ok"}'


async def delete_key(node: Node, request: Request) -> Answer:
    await node.write(request.cell, DeleteKv(request.name, node.clock.stamp()))
    return 200, '{"status":"deleted"}'


async def make_checkpoint(node: Node, request: Request) -> Answer:
    label = optional_text(await request.json(), "label")
    op = MakeCheckpoint(node.ids.event_id(), "manual" if label is None else label, node.clock.stamp())
    applied = await node.write(request.cell, op)
    return 201, f'{{"checkpoint":{checkpoint_json(request.cell, applied.value)}}}'


async def get_checkpoints(node: Node, request: Request) -> Answer:
    rows = await node.read(request.cell, lambda db: db.checkpoints())
    return 200, f'{{"checkpoints":[{",".join(checkpoint_json(request.cell, row) for row in rows)}]}}'


async def restore(node: Node, request: Request) -> Answer:
    checkpoint = text_field(await request.json(), "checkpoint_id")
    applied: Applied = await node.write(
        request.cell, Rewind(checkpoint, None, node.ids.event_id(), node.clock.stamp())
    )
    return 200, f'{{"status":"restored","target_sequence":{applied.value}}}'


async def compact(node: Node, request: Request) -> Answer:
    through = (await request.json()).get("through")
    if isinstance(through, bool) or not isinstance(through, int):
        raise BadShape("through: is not a whole number")
    applied = await node.write(request.cell, Compact(through, node.ids.event_id(), node.clock.stamp()))
    return 200, f'{{"status":"compacted","through":{applied.value}}}'


async def backup(node: Node, request: Request) -> Answer:
    if not await known(node, request.cell):
        raise Failed(f"Cell database file not found for '{request.cell}'")
    cell = await node.active(request.cell)
    await node.save(cell, always=True)
    return 200, '{"status":"backed_up"}'


async def evict(node: Node, request: Request) -> Answer:
    await node.evict(request.cell)
    return 200, '{"status":"evicted"}'


async def export(node: Node, request: Request) -> Answer:
    return 200, f'{{"export":{await node.read(request.cell, export_json, long=True)}}}'


async def get_cell(node: Node, request: Request) -> Answer:
    meta = await node.read(request.cell, lambda db: db.meta())
    return 200, f'{{"cell":{meta.json()}}}'


async def get_cells(node: Node, _: Request) -> Answer:
    return 200, f'{{"cells":[{",".join(await list_cells(node))}]}}'


async def create_cell(node: Node, request: Request) -> Answer:
    data = await request.json()
    given, name = optional_text(data, "id"), optional_text(data, "name")
    chosen = cell_id(given) if given is not None else plain_uuid(node.ids.token())
    present = node.cells.get(chosen)
    if present is not None and present.state is State.ACTIVE:
        raise BadRequest(f"Cell with id '{chosen}' is already active", code="cellz.already_active")
    metadata = data.get("metadata")
    text = "{}" if metadata is None else _dump(metadata)
    await node.active(chosen, (chosen if name is None else name, text))
    meta = await node.read(chosen, lambda db: db.meta())
    if metadata is not None and meta.metadata != text:
        await node.write(chosen, SetMetadata(text, node.clock.stamp()))
        meta = await node.read(chosen, lambda db: db.meta())
    return 201, f'{{"cell":{meta.json()}}}'


async def fork_cell(node: Node, request: Request) -> Answer:
    data = await request.json()
    given, name = optional_text(data, "id"), optional_text(data, "name")
    checkpoint, sequence = optional_text(data, "checkpoint_id"), data.get("sequence")
    if sequence is not None and (isinstance(sequence, bool) or not isinstance(sequence, int)):
        raise BadShape("sequence: is not a whole number")
    if (checkpoint is None) == (sequence is None):
        raise BadShape("give either checkpoint_id or sequence")
    chosen = cell_id(given) if given is not None else plain_uuid(node.ids.token())
    meta = await fork(node, request.cell, chosen, name, checkpoint, sequence)
    return 201, f'{{"cell":{meta.json()}}}'


async def put_alarm(node: Node, request: Request) -> Answer:
    data = await request.json()
    alarm = alarms.alarm_id(data["id"]) if data.get("id") is not None else node.ids.event_id()
    spec = alarms.parse_spec(data, node.clock.now())
    await alarmclock.set_alarm(node, request.cell, alarm, spec)
    rows = await node.read(request.cell, lambda db: db.alarms())
    row = next((row for row in rows if row[0] == alarm), None)
    return 201, f'{{"alarm":{"null" if row is None else _alarm_json(row)}}}'


def _alarm_json(row: tuple[str, str, str, str | None, int, int, str]) -> str:
    names = ("id", "kind", "spec", "next_at", "fired", "missed", "created_at")
    fields: dict[str, Any] = dict(zip(names, row, strict=True))
    fields |= {
        "spec": orjson.Fragment(row[2]),
        "next_at": None if row[3] is None else zulu(row[3]),
        "created_at": zulu(row[6]),
    }
    return _dump(fields)


async def get_alarms(node: Node, request: Request) -> Answer:
    rows = await node.read(request.cell, lambda db: db.alarms())
    return 200, f'{{"alarms":[{",".join(map(_alarm_json, rows))}]}}'


async def delete_alarm(node: Node, request: Request) -> Answer:
    await alarmclock.cancel_alarm(node, request.cell, request.name)
    return 200, '{"status":"cancelled"}'


# (path below /api/v1/cells, method) -> (handler, whether it writes). `{name}` is one more part of the path.
CELLS: dict[tuple[str, str], tuple[Handler, bool]] = {
    ("", "GET"): (get_cells, False),
    ("", "POST"): (create_cell, True),
    ("{id}", "GET"): (get_cell, False),
    ("{id}/events", "GET"): (get_events, False),
    ("{id}/events", "POST"): (append_event, True),
    ("{id}/events/batch", "POST"): (append_batch, True),
    ("{id}/branches", "GET"): (get_branches, False),
    ("{id}/messages", "GET"): (get_messages, False),
    ("{id}/kv", "GET"): (get_kv, False),
    ("{id}/kv", "POST"): (put_kv, True),
    ("{id}/kv/{name}", "GET"): (get_key, False),
    ("{id}/kv/{name}", "DELETE"): (delete_key, True),
    ("{id}/checkpoints", "GET"): (get_checkpoints, False),
    ("{id}/checkpoints", "POST"): (make_checkpoint, True),
    ("{id}/restore", "POST"): (restore, True),
    ("{id}/fork", "POST"): (fork_cell, True),
    ("{id}/compact", "POST"): (compact, True),
    ("{id}/backup", "POST"): (backup, True),
    ("{id}/evict", "POST"): (evict, True),
    ("{id}/export", "GET"): (export, False),
    ("{id}/alarms", "GET"): (get_alarms, False),
    ("{id}/alarms", "POST"): (put_alarm, True),
    ("{id}/alarms/{name}", "DELETE"): (delete_alarm, True),
}

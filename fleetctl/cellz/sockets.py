"""`GET .../ws`: the original's frames, and with `?v=2` acknowledgements, errors, pong, meta and replay."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from fleetctl.cellz.cursor import Reset
from fleetctl.cellz.errors import BadRequest, BadShape, CellzError, Forbidden
from fleetctl.cellz.http import Receive, Request, Send, parse_json, text_field
from fleetctl.cellz.node import Node
from fleetctl.cellz.ops import Append
from fleetctl.cellz.routes import new_event
from fleetctl.cellz.streams import Follower, reset_json, subscribed, wanted_place

# Close codes of RFC 6455, section 7.4.1.
_GOING_AWAY = 1001


async def serve_ws(node: Node, request: Request, receive: Receive, send: Send) -> None:
    """Serve one WebSocket from its handshake; what refuses the cell is raised before it is accepted."""
    talks = request.query().get("v") == "2"
    since, branch = wanted_place(request)
    cell, feed = await subscribed(node, request.cell)
    node.metrics.readers += 1
    try:
        await receive()
        head = [(b"x-cellz-branch", b"%d" % feed.branch)]
        await send({"type": "websocket.accept", "headers": head})
        # The original's frames are live only.
        follower = Follower(node, cell, feed, since if talks else None, branch if talks else None)
        outbox: asyncio.Lock = asyncio.Lock()
        pushing = node.spawn(_push(follower, send, outbox, talks))
        hearing = node.spawn(_hear(node, request, receive, send, outbox, talks))
        done, left = await asyncio.wait({pushing, hearing}, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if pushing in done:
            await send({"type": "websocket.close", "code": _GOING_AWAY})
    finally:
        node.metrics.readers -= 1
        cell.unsubscribe(feed)


async def _push(follower: Follower, send: Send, outbox: asyncio.Lock, talks: bool) -> None:
    async for item in follower.items():
        if item is None:
            continue
        if isinstance(item, Reset):
            texts = [f'{{"type":"reset","data":{reset_json(item)}}}'] if talks else []
        else:
            texts = [f'{{"type":"event","data":{frame.json}}}' for frame in item]
        async with outbox:
            for text in texts:
                await send({"type": "websocket.send", "text": text})


async def _hear(
    node: Node, request: Request, receive: Receive, send: Send, outbox: asyncio.Lock, talks: bool
) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text is None:
            continue
        ref: Any = None
        try:
            data = parse_json(text.encode())
            if not isinstance(data, dict):
                raise BadShape("expected a JSON object")
            ref = data.get("ref")
            answer = await _act(node, request, data)
        except CellzError as error:
            answer = {"type": "error", "error": error.message, "code": error.code}
        if talks and answer is not None:
            if ref is not None:
                answer["ref"] = ref
            async with outbox:
                await send({"type": "websocket.send", "text": orjson.dumps(answer).decode()})


async def _act(node: Node, request: Request, data: dict[str, Any]) -> dict[str, Any]:
    """Do what a client's frame asks and return the reply of `?v=2`; raises CellzError."""
    action = text_field(data, "action")
    if action == "ping":
        return {"type": "pong"}
    if action == "get_meta":
        meta = await node.read(request.cell, lambda db: db.meta())
        return {"type": "meta", "data": orjson.Fragment(meta.json())}
    if action == "append_event":
        if request.role != "writer":
            raise Forbidden
        event = new_event(node, data, node.clock.stamp())
        applied = await node.write(request.cell, Append((event,)))
        return {"type": "ack", "sequence": applied.records[0].sequence, "id": event.id}
    raise BadRequest(f"action: {action!r} is none of ping, get_meta, append_event")

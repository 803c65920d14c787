"""The ASGI application: find the route, check the key, call the handler, turn refusals into answers."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import orjson

from fleetctl.cellz.auth import check
from fleetctl.cellz.cells import known
from fleetctl.cellz.errors import CellzError, HeldElsewhere, NotFound
from fleetctl.cellz.http import BodyWatch, Message, Receive, Request, Scope, Send, answer, error_body
from fleetctl.cellz.node import Node
from fleetctl.cellz.peer import Forwarder
from fleetctl.cellz.routes import CELLS, Handler
from fleetctl.cellz.sockets import serve_ws
from fleetctl.cellz.state import health, state_json
from fleetctl.cellz.streams import serve_sse
from fleetctl.cellz.traces import Tracer
from fleetctl.cellz.trouble import refusal
from fleetctl.cellz.words import cell_id

log = logging.getLogger("cellz")

_PREFIX = "/api/v1/cells"
_PLAIN_METHODS = {"/health": "GET", "/ready": "GET", "/state": "GET", "/metrics": "GET", "/drain": "POST"}
_TEXT = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
# Routes that a reader's GET may not bring into being: a reader's key creates nothing.
_BRANCHED = ("{id}/events", "{id}/branches")


class App:
    """The application over one node; `drain` is called by POST /drain."""

    def __init__(self, node: Node, drain: Callable[[], Awaitable[None]], forwarder: Forwarder | None) -> None:
        self._node = node
        self._drain = drain
        self._forwarder = forwarder
        self._tracer = Tracer(node.settings.otel)
        self._bodies = BodyWatch(node.settings.body_timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket."""
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:
            raise AssertionError(f"unexpected ASGI scope {kind}")

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._node.settings
        request = Request(scope, receive, settings.max_body, self._bodies)
        head = request.method == "HEAD"
        if head:
            request.method = "GET"
        route, names, methods = _route(request.path)
        sent = _Sent(send)
        span = self._tracer.span(request, route) if self._tracer.on else nullcontext()
        with span:
            try:
                status, body, extra = await self._answer(request, route, names, methods, receive, sent)
            except CellzError as error:
                status, body, extra = error.status, error_body(error), error.headers()
            except sqlite3.Error as error:
                told = refusal(request.cell, error)
                status, body, extra = told.status, error_body(told), told.headers()
            except Exception:
                log.exception("a request failed", extra={"facts": {"route": route, "cell": request.cell}})
                status, body, extra = 500, b'{"error":"internal error"}', []
            self._node.metrics.request(route, status)
            if sent.began:
                return
            if status in (408, 413):
                # The rest of the body is not wanted; HTTP/1.1 can only say so by closing.
                extra = [*extra, (b"connection", b"close")]
            await answer(send, status, body, extra, head=head)

    async def _answer(
        self,
        request: Request,
        route: str,
        names: tuple[str, str],
        methods: str,
        receive: Receive,
        send: _Sent,
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        if route.startswith("/"):
            return await self._plain(request, route)
        keys = self._node.settings.api_keys
        if not methods:
            return 404, b"", []
        found = CELLS.get((route, request.method))
        streams = route == "{id}/stream" and request.method == "GET"
        if found is None and not streams:
            return 405, b"", [(b"allow", methods.encode())]
        handler, writes = found or (None, False)
        request.role = check(request.headers, keys, writes=writes)
        if names[0]:
            # A cell that is here has had its id checked.
            request.cell = names[0] if names[0] in self._node.cells else cell_id(names[0])
            request.name = names[1]
            if request.role == "reader" and not await known(self._node, request.cell):
                raise NotFound(f"cell '{request.cell}' does not exist, and a reader's key creates none")
        try:
            if handler is None:
                await serve_sse(self._node, request, receive, send)
                return 200, b"", []
            return await self._handle(handler, request, route)
        except HeldElsewhere as error:
            if self._forwarder is None or not self._forwarder.may(request, error):
                raise
            return await self._forwarder.forward(request, error, send), b"", []

    async def _handle(
        self, handler: Handler, request: Request, route: str
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        status, text = await handler(self._node, request)
        extra: list[tuple[bytes, bytes]] = []
        if route in _BRANCHED and request.method == "GET":
            cell = self._node.cells.get(request.cell)
            if cell is not None and cell.db is not None:
                extra = [(b"x-cellz-branch", b"%d" % cell.db.branch)]
        return status, text.encode(), extra

    async def _plain(self, request: Request, route: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        node = self._node
        if request.method != _PLAIN_METHODS[route]:
            return 405, b"", [(b"allow", _PLAIN_METHODS[route].encode())]
        if route == "/health":
            return 200, orjson.dumps(health(node)), []
        if route == "/ready":
            status = 503 if node.draining else 200
            return status, orjson.dumps({"status": "draining" if node.draining else "ready"}), []
        check(request.headers, node.settings.api_keys, writes=route == "/drain")
        if route == "/drain":
            await self._drain()
            return 200, orjson.dumps({"status": "drained", "resident": len(node.resident())}), []
        if route == "/state":
            return 200, orjson.dumps(state_json(node)), []
        facts = state_json(node)
        node.metrics.gauges = {
            "resident_cells": facts["resident"],
            "open_databases": facts["open"],
            "restoring_cells": facts["restoring"],
            "quarantined_cells": len(facts["quarantined"]),
            "sync_lag_seconds": facts["sync"]["lag_s"],
            "draining": float(facts["draining"]),
            "resident_memory_bytes": facts["memory_bytes"],
        }
        return 200, node.metrics.text(), _TEXT

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._node.settings
        scope = dict(scope, method="GET")
        request = Request(scope, receive, settings.max_body, self._bodies)
        route, names, _ = _route(request.path)
        try:
            if route != "{id}/ws":
                raise NotFound("no WebSocket here")
            request.role = check(request.headers, settings.api_keys, writes=False)
            request.cell = cell_id(names[0])
            if request.role == "reader" and not await known(self._node, request.cell):
                raise NotFound(f"cell '{request.cell}' does not exist, and a reader's key creates none")
            try:
                await serve_ws(self._node, request, receive, send)
            except HeldElsewhere as error:
                if self._forwarder is None or not self._forwarder.may(request, error):
                    raise
                await self._forwarder.forward_ws(request, error, receive, send)
        except CellzError as error:
            headers = [(b"content-type", b"application/json"), *error.headers()]
            await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": error_body(error)})


class _Sent:
    """A `send` that remembers whether an answer has begun."""

    __slots__ = ("_send", "began")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.began = False

    async def __call__(self, message: Message) -> None:
        self.began = True
        await self._send(message)


def _methods() -> dict[str, str]:
    found: dict[str, str] = {"{id}/stream": "GET", "{id}/ws": "GET"}
    for route, method in CELLS:
        found[route] = ",".join(filter(None, (found.get(route), method)))
    return found


_METHODS = _methods()
_TAILS = {
    route.removeprefix("{id}/"): (route, methods) for route, methods in _METHODS.items() if "/" in route
}
_DEEP = {f"{each}/": each for each in ("kv", "alarms")}


def _route(path: str) -> tuple[str, tuple[str, str], str]:
    """Return (route, (cell, name), methods); the route of a plain path starts with a slash, "" is unknown."""
    if not path.startswith(_PREFIX):
        return (path, ("", ""), "GET") if path in _PLAIN_METHODS else ("", ("", ""), "")
    rest = path[len(_PREFIX) :]
    if not rest:
        return "", ("", ""), _METHODS[""]
    if rest[0] != "/" or len(rest) == 1:
        return "unknown", ("", ""), ""
    cell, _, tail = rest[1:].partition("/")
    plain = _TAILS.get(tail)
    if plain is not None:
        return plain[0], (cell, ""), plain[1]
    if not tail:
        return ("unknown", ("", ""), "") if rest.endswith("/") else ("{id}", (cell, ""), _METHODS["{id}"])
    for start, name in _DEEP.items():
        if tail.startswith(start) and len(tail) > len(start):
            route = f"{{id}}/{name}/{{name}}"
            return route, (cell, tail[len(start) :]), _METHODS[route]
    return "unknown", (cell, ""), ""

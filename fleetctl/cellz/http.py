"""Requests and answers over ASGI: bodies counted as they arrive, JSON with the original's statuses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from fleetctl.cellz.errors import BadRequest, BadShape, CellzError, TooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_JSON = (b"content-type", b"application/json")
_JSON_TYPE = re.compile(rb"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_I64 = 2**63
# serde_json's own depth; deeper JSON is 400 there and here.
_DEPTH_MAX = 127


class Timeout(CellzError):
    """The body did not arrive in time."""

    code = "cellz.body_timeout"
    status = 408


class NotJson(CellzError):
    """The body is not declared to be JSON."""

    code = "cellz.not_json"
    status = 415


class BodyWatch:
    """Ends the reading of bodies that do not arrive in time.

    One timer for all: most bodies are there before anyone could wait, and a timer each would cost them more
    than the reading.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._reading: dict[Request, tuple[float, asyncio.Task[Any] | None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.late: set[Request] = set()

    def enter(self, request: Request) -> None:
        """Start the time of a body."""
        loop = asyncio.get_running_loop()
        self._reading[request] = (loop.time() + self.timeout_s, asyncio.current_task())
        if self._timer is None:
            self._timer = loop.call_later(self.timeout_s / 4, self._look)

    def leave(self, request: Request) -> None:
        """Note that a body is read, or given up."""
        self._reading.pop(request, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for request, (until, task) in list(self._reading.items()):
            if now > until and task is not None and request not in self.late:
                self.late.add(request)
                task.cancel()
        self._timer = loop.call_later(self.timeout_s / 4, self._look) if self._reading else None


class Request:
    """One HTTP request; the body is read once, by `body`."""

    __slots__ = (
        "_body",
        "_receive",
        "_watch",
        "cell",
        "headers",
        "max_body",
        "method",
        "name",
        "path",
        "query_string",
        "role",
    )

    def __init__(self, scope: Scope, receive: Receive, max_body: int, watch: BodyWatch) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.query_string: bytes = scope["query_string"]
        self.cell = ""
        self.name = ""
        self.role = ""
        self.max_body = max_body
        self._watch = watch
        self._receive = receive
        self._body: bytes | None = None

    def header(self, name: bytes) -> bytes | None:
        """Return the first header of that lower-case name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    async def body(self) -> bytes:
        """Return the whole body; raises TooLarge or Timeout as soon as that is known (H5)."""
        if self._body is not None:
            return self._body
        declared = self.header(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > self.max_body:
            raise TooLarge(f"the body has {int(declared)} bytes, over the limit of {self.max_body}")
        self._watch.enter(self)
        try:
            message = await self._receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                body = await self._rest(body)
        except asyncio.CancelledError:
            if self not in self._watch.late:
                raise
            self._watch.late.discard(self)
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            raise Timeout(f"the body did not arrive within {self._watch.timeout_s:g} s") from None
        finally:
            self._watch.leave(self)
        if len(body) > self.max_body:
            raise TooLarge(f"the body is over the limit of {self.max_body} bytes")
        self._body = body
        return body

    async def _rest(self, first: bytes) -> bytes:
        parts, size = [first], len(first)
        while True:
            if size > self.max_body:
                raise TooLarge(f"the body is over the limit of {self.max_body} bytes")
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise BadRequest("the client went away")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body"):
                return b"".join(parts)

    async def json(self) -> dict[str, Any]:
        """Return the body as a JSON object: 415 undeclared, 400 malformed, 422 not an object."""
        declared = self.header(b"content-type")
        if declared is None or not _JSON_TYPE.fullmatch(declared.strip()):
            raise NotJson("Expected request with `Content-Type: application/json`")
        data = parse_json(await self.body())
        if not isinstance(data, dict):
            raise BadShape("expected a JSON object")
        return data

    def query(self) -> dict[str, str]:
        """Return the query's parameters; raises BadRequest for text that is not UTF-8."""
        if not self.query_string:
            return {}
        try:
            return dict(parse_qsl(self.query_string.decode("ascii"), keep_blank_values=True, errors="strict"))
        except (UnicodeDecodeError, ValueError) as error:
            raise BadRequest("the query is malformed") from error


def parse_json(body: bytes) -> Any:
    """Return parsed JSON; raises BadRequest for anything malformed, too deep, or out of range."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    # A document this deep has at least as many brackets; most bodies need no walk.
    if body.count(b"[") + body.count(b"{") > _DEPTH_MAX and _deeper(data, _DEPTH_MAX):
        raise BadRequest(f"the JSON is nested deeper than {_DEPTH_MAX}")
    return data


def _deeper(data: Any, limit: int) -> bool:
    """Return whether `data` is nested deeper than `limit`, without recursion."""
    level = [data]
    for _ in range(limit + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def integer(parameters: dict[str, str], name: str) -> int | None:
    """Return a 64-bit integer parameter, or None without it; raises BadRequest."""
    text = parameters.get(name)
    if text is None:
        return None
    value = int(text) if _INTEGER.fullmatch(text) else _I64
    if not -_I64 <= value < _I64:
        raise BadRequest(f"{name}: {text!r} is not a 64-bit integer")
    return value


def text_field(data: dict[str, Any], name: str) -> str:
    """Return a required text; raises BadShape."""
    value = data.get(name)
    if not isinstance(value, str):
        raise BadShape(f"{name}: is not a text" if name in data else f"missing field `{name}`")
    return value


def optional_text(data: dict[str, Any], name: str) -> str | None:
    """Return a text, or None when absent or null; raises BadShape."""
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise BadShape(f"{name}: is not a text")
    return value


async def answer(
    send: Send,
    status: int,
    body: bytes,
    extra: list[tuple[bytes, bytes]] | None = None,
    *,
    head: bool = False,
) -> None:
    """Send a JSON answer (or an empty one, for an empty body)."""
    headers = [(b"content-length", b"%d" % len(body))]
    if body:
        headers.append(_JSON)
    if extra:
        headers += extra
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})


def error_body(error: CellzError) -> bytes:
    """Return `{"error": text}` of the contract, with our code and hint beside it."""
    fields = {"error": error.message, "code": error.code}
    if error.hint:
        fields["hint"] = error.hint
    return orjson.dumps(fields)

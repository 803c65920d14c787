"""Forward a request to the node that holds its cell; once, so that two nodes cannot send it in circles."""

from __future__ import annotations

import asyncio
from typing import Any

from fleetctl.cellz.errors import HeldElsewhere, StoreTrouble
from fleetctl.cellz.http import Message, Receive, Request, Send

_MARK = b"x-cellz-forwarded"
_CONNECT_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 30.0
# Hop-by-hop fields (RFC 9110, section 7.6.1), and what the client library sets itself.
# What a WebSocket's handshake keeps of the client's; the rest is between it and this node.
_KEPT_BY_WS = {b"authorization", b"x-api-key", b"traceparent", b"tracestate"}
_GOING_AWAY = 1001
_DROPPED = {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"host"}


class Forwarder:
    """Sends requests on over one pool of connections."""

    def __init__(self, own_address: str) -> None:
        import httpx

        self._own = own_address
        timeout = httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
        self._client = httpx.AsyncClient(timeout=timeout, trust_env=False)

    def may(self, request: Request, refused: HeldElsewhere) -> bool:
        """Return whether the request can be sent on: the owner is known, is not us, and nobody sent it here."""
        return bool(refused.owner) and refused.owner != self._own and request.header(_MARK) is None

    async def forward(self, request: Request, refused: HeldElsewhere, send: Send) -> int:
        """Send the request to the owner and its answer, streamed, to the client; return the status.

        Raises StoreTrouble when the owner does not answer before anything was sent.
        """
        import httpx

        target = _target(request, refused)
        headers: list[tuple[bytes, bytes]] = [
            (name, value) for name, value in request.headers if name not in _DROPPED | {b"content-length"}
        ]
        headers.append((_MARK, b"1"))
        body = await request.body() if request.method not in ("GET", "HEAD") else b""
        streams = request.path.endswith("/stream")
        timeout: Any = (
            httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S) if streams else httpx.USE_CLIENT_DEFAULT
        )
        began = False
        try:
            async with self._client.stream(
                request.method, target, content=body, headers=headers, timeout=timeout
            ) as answer:
                kept = [(name, value) for name, value in answer.headers.raw if name.lower() not in _DROPPED]
                start: Message = {
                    "type": "http.response.start",
                    "status": answer.status_code,
                    "headers": kept,
                }
                await send(start)
                began = True
                async for part in answer.aiter_raw():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                return int(answer.status_code)
        except httpx.HTTPError as error:
            if began:
                raise
            raise StoreTrouble(f"the owner at {refused.owner} did not answer: {error}") from error

    async def forward_ws(
        self, request: Request, refused: HeldElsewhere, receive: Receive, send: Send
    ) -> None:
        """Carry a WebSocket's frames between client and owner until either leaves.

        Raises StoreTrouble when the owner does not take it, before it is accepted here.
        """
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, WebSocketException

        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.headers
            if name in _KEPT_BY_WS
        ]
        try:
            owner = await connect(
                "ws" + _target(request, refused).removeprefix("http"),
                additional_headers=[*headers, (_MARK.decode(), "1")],
                open_timeout=_CONNECT_TIMEOUT_S,
                compression=None,
                proxy=None,
                max_size=None,
            )
        except (OSError, TimeoutError, WebSocketException) as error:
            raise StoreTrouble(f"the owner at {refused.owner} did not answer: {error}") from error

        async def up() -> None:
            while (message := await receive())["type"] != "websocket.disconnect":
                if message["type"] == "websocket.receive":
                    await owner.send(message.get("text") or message.get("bytes") or "")

        async def down() -> None:
            async for frame in owner:
                kind = "text" if isinstance(frame, str) else "bytes"
                await send({"type": "websocket.send", kind: frame})

        async with owner:
            await receive()
            branch = owner.response.headers.get("x-cellz-branch", "") if owner.response else ""
            await send({"type": "websocket.accept", "headers": [(b"x-cellz-branch", branch.encode())]})
            both = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
            done, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in left:
                task.cancel()
            for failure in await asyncio.gather(*both, return_exceptions=True):
                if isinstance(failure, Exception) and not isinstance(failure, ConnectionClosed):
                    raise failure
            if both[1] in done:
                await send({"type": "websocket.close", "code": _GOING_AWAY})

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _target(request: Request, refused: HeldElsewhere) -> str:
    query = "?" + request.query_string.decode("latin-1") if request.query_string else ""
    return refused.owner + request.path + query

"""One system call for an answer: uvicorn writes its head and its body apart, and each would be a packet of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/"


class Joined:
    """A transport that holds the head of an answer for its body, at most until the loop's next turn."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write `data`, behind the head that is held."""
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(_HEAD):
            # A stream's first event may be hours away, and an empty body is never written.
            self._held = data
            self._loop.call_soon(self._let_go)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Close once everything is written."""
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol over such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a connection."""
        super().connection_made(transport)
        self.transport = Joined(transport, self.loop)  # type: ignore[assignment]

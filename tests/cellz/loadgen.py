"""A load generator as a process of its own: raw HTTP/1.1 over keep-alive connections, one JSON line at the end.

`python -m tests.cellz.loadgen HOST PORT CONNECTIONS SECONDS BATCH PREFIX`: each connection appends to a cell
of its own; BATCH 0 is a single append a request, else that many events a request.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

PAYLOAD = '{"event_type":"tool_call","payload":{"a":"' + "x" * 100 + '"}}'


class Connection(asyncio.Protocol):
    """Sends the same request again as soon as its answer is whole."""

    def __init__(self, request: bytes, until: float) -> None:
        self.request = request
        self.until = until
        self.latencies: list[float] = []
        self.bad = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._next()

    def _next(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at : head.find(b"\r", at) if b"\r" in head[at:] else None])
        if len(self._buffer) < end + 4 + length:
            return
        now = time.perf_counter()
        self.latencies.append(now - self._sent)
        self.bad += not head.startswith(b"http/1.1 201")
        self._buffer = b""
        if now < self.until:
            self._next()
        elif not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(
    host: str, port: int, connections: int, seconds: float, batch: int, prefix: str
) -> dict[str, float]:
    """Run the load and return requests, seconds, bad answers and latencies in milliseconds."""
    loop = asyncio.get_running_loop()
    body = PAYLOAD if not batch else '{"events":[' + ",".join([PAYLOAD] * batch) + "]}"
    tail = "/batch" if batch else ""
    began = time.perf_counter()
    opened = []
    for number in range(connections):
        request = (
            f"POST /api/v1/cells/{prefix}{number}/events{tail} HTTP/1.1\r\nhost: bench\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
        ).encode()
        _, protocol = await loop.create_connection(
            lambda r=request: Connection(r, began + seconds), host, port
        )  # type: ignore[misc]
        opened.append(protocol)
    await asyncio.gather(*(each.done for each in opened))
    took = time.perf_counter() - began
    every = sorted(latency for each in opened for latency in each.latencies)
    return {
        "requests": len(every),
        "seconds": took,
        "bad": sum(each.bad for each in opened),
        "p50_ms": every[len(every) // 2] * 1000,
        "p99_ms": every[int(len(every) * 0.99)] * 1000,
    }


if __name__ == "__main__":
    host, port, connections, seconds, batch, prefix = sys.argv[1:]
    result = uvloop.run(load(host, int(port), int(connections), float(seconds), int(batch), prefix))
    print(json.dumps(result))

"""Many stream readers in a process of its own: append, and wait until the last reader has it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop


class Reader(asyncio.Protocol):
    """Counts the events it is given."""

    def __init__(self, request: bytes, hub: Hub) -> None:
        self._request = request
        self._hub = hub
        self._tail = b""
        self.connected = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.connected and b"200 OK" in data:
            self.connected = True
            self._hub.ready()
        text = self._tail + data
        count = text.count(b"\ndata:")
        if count:
            self._hub.got(count)
        self._tail = b"" if count else text[-8:]


class Hub:
    """Knows when every reader has what was appended."""

    def __init__(self, readers: int) -> None:
        self.readers = readers
        self.here = 0
        self.seen = 0
        self.goal = 0
        self.all_ready = asyncio.Event()
        self.all_seen = asyncio.Event()

    def ready(self) -> None:
        self.here += 1
        if self.here == self.readers:
            self.all_ready.set()

    def got(self, count: int) -> None:
        self.seen += count
        if self.seen >= self.goal:
            self.all_seen.set()


async def main(host: str, port: int, cell: str, readers: int, rounds: int) -> None:
    """Print p50 and p99 in milliseconds."""
    loop = asyncio.get_running_loop()
    hub = Hub(readers)
    body = '{"event_type":"note","payload":1}'
    post = (
        f"POST /api/v1/cells/{cell}/events HTTP/1.1\r\nhost: b\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}"
    ).encode()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(post)
    await reader.read(4096)
    request = f"GET /api/v1/cells/{cell}/stream HTTP/1.1\r\nhost: b\r\n\r\n".encode()
    for _ in range(readers):
        await loop.create_connection(lambda: Reader(request, hub), host, port)
    await hub.all_ready.wait()
    await asyncio.sleep(0.5)
    took = []
    for number in range(rounds):
        hub.goal = readers * (number + 1)
        hub.all_seen.clear()
        began = time.perf_counter()
        writer.write(post)
        await asyncio.wait_for(hub.all_seen.wait(), 30)
        took.append((time.perf_counter() - began) * 1000)
        await reader.read(4096)
        await asyncio.sleep(0.02)
    took.sort()
    print(json.dumps({"p50_ms": took[len(took) // 2], "p99_ms": took[int(len(took) * 0.99)]}))


if __name__ == "__main__":
    host, port, cell, readers, rounds = sys.argv[1:]
    uvloop.run(main(host, int(port), cell, int(readers), int(rounds)))

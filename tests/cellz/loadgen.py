"""A load generator as a process of its own: raw HTTP/1.1 over keep-alive connections, one JSON line at the end.

`python -m tests.cellz.loadgen HOST PORT CONNECTIONS SECONDS BATCH PREFIX`: each connection appends to a cell
of its own, and again as soon as its answer is whole; BATCH 0 is a single append a request, else that many events
a request. Plain sockets over epoll, so that it costs a fraction of what any of the daemons does (`cpu_us`).
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time

PAYLOAD = '{"event_type":"tool_call","payload":{"a":"' + "x" * 100 + '"}}'
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_READ_BYTES = 1 << 18


class Connection:
    """One connection with one request under way."""

    def __init__(self, host: str, port: int, request: bytes) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.latencies: list[float] = []
        self.bad = 0
        self._request = request
        self._answer = b""
        self._sent = 0.0

    def send(self) -> None:
        self._answer = b""
        self._sent = time.perf_counter()
        self.socket.sendall(self._request)

    def hear(self) -> bool:
        """Read what is there; return whether the answer is whole."""
        self._answer += self.socket.recv(_READ_BYTES)
        end = self._answer.find(b"\r\n\r\n")
        length = _LENGTH.search(self._answer, 0, end + 2) if end >= 0 else None
        if length is None or len(self._answer) < end + 4 + int(length[1]):
            return False
        self.latencies.append(time.perf_counter() - self._sent)
        self.bad += not self._answer.startswith(b"HTTP/1.1 201")
        return True


def load(host: str, port: int, connections: int, seconds: float, batch: int, prefix: str) -> dict[str, float]:
    """Run the load and return requests, seconds, bad answers, latencies in milliseconds, own CPU a request."""
    body = PAYLOAD if not batch else '{"events":[' + ",".join([PAYLOAD] * batch) + "]}"
    tail = "/batch" if batch else ""
    poll = select.epoll()
    opened: dict[int, Connection] = {}
    for number in range(connections):
        request = (
            f"POST /api/v1/cells/{prefix}{number}/events{tail} HTTP/1.1\r\nhost: bench\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
        ).encode()
        connection = Connection(host, port, request)
        opened[connection.socket.fileno()] = connection
        poll.register(connection.socket, select.EPOLLIN)
    cpu = time.process_time()
    began = time.perf_counter()
    for connection in opened.values():
        connection.send()
    running = connections
    while running:
        for descriptor, _ in poll.poll():
            connection = opened[descriptor]
            if not connection.hear():
                continue
            if time.perf_counter() < began + seconds:
                connection.send()
            else:
                poll.unregister(descriptor)
                running -= 1
    took = time.perf_counter() - began
    cpu = time.process_time() - cpu
    every = sorted(latency for each in opened.values() for latency in each.latencies)
    return {
        "requests": len(every),
        "seconds": took,
        "bad": sum(each.bad for each in opened.values()),
        "p50_ms": every[len(every) // 2] * 1000,
        "p99_ms": every[int(len(every) * 0.99)] * 1000,
        "generator_cpu_us": cpu / len(every) * 1e6,
    }


if __name__ == "__main__":
    host, port, connections, seconds, batch, prefix = sys.argv[1:]
    print(json.dumps(load(host, int(port), int(connections), float(seconds), int(batch), prefix)))

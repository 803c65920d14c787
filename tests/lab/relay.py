"""A TCP relay in user space: the same delay for whatever runs through it, and faults on demand.

Kernels without netem cannot delay packets; this holds each chunk of bytes for a fixed time in each direction. The
TCP handshake itself is answered by the relay's own machine at once, so a connection costs one delay less than over
a real line; everything that is compared through the same relay gains the same.

One relay may listen on many addresses, each with its target. As a program of its own (so that its CPU time is not
counted with that of what is measured): `python -m tests.lab.relay --delay-ms 25 127.78.0.1:2200=127.77.0.1:2200 …`;
it prints each pair as it listens, then `ready`, and ends with SIGTERM or when standard input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import struct
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

CHUNK_BYTES = 65_536
HELD_BYTES_MAX = 8 * 1024 * 1024
"""Bytes in flight per direction before the sender is made to wait: the line's bandwidth times its delay."""

CALL_TIMEOUT_S = 10.0
BACKLOG = 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Endpoint = tuple[str, int]
T = TypeVar("T")


@dataclass
class _Faults:
    """What the relay does wrong at the moment, the same for all its connections."""

    swallow: bool = False
    hold: bool = False
    refuse: bool = False
    cut_after: dict[str, int] = field(default_factory=dict)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Turn:
    """Whose turn it is on one connection: a round trip is over when the client speaks after the server."""

    last: str = "down"

    def spoke(self, direction: str) -> int:
        """1 when this begins a round trip, else 0."""
        begins = direction == "up" and self.last == "down"
        self.last = direction
        return int(begins)


class Relay:
    """Relays connections with a delay; use as a context manager, or `start()` and `stop()`.

    Directions are named as the client sees them: `up` is towards the target, `down` towards the client.
    """

    def __init__(self, *, delay_s: float = 0.0) -> None:
        """Describe a relay; nothing runs before `start()`.

        Args:
            delay_s: seconds added in each direction, so a round trip takes twice as much longer.
        """
        self.delay_s = delay_s
        self.bytes_relayed = {"up": 0, "down": 0}
        self.connections = 0
        self.round_trips = 0
        """How often a client spoke again after it had heard something: what a delay is multiplied with."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lab-relay", daemon=True)
        self._faults = _Faults()
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> Relay:
        """Start the relay's thread."""
        self._faults.go_on.set()
        self._thread.start()
        return self

    def add(self, target: Endpoint, *, listen: Endpoint = ("127.0.0.1", 0)) -> Endpoint:
        """Listen at `listen` (port 0: any free one) for connections to `target`; returns the address listened at."""

        async def serve() -> Endpoint:
            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._connection(reader, writer, target)

            server = await asyncio.start_server(accept, *listen, backlog=BACKLOG, limit=CHUNK_BYTES)
            self._servers.append(server)
            address, port = server.sockets[0].getsockname()[:2]
            return str(address), int(port)

        return self._call(serve())

    # Faults. Each lasts until `heal()`.

    def blackhole(self) -> None:
        """Swallow all bytes from now on: connections stay open, nothing arrives, new ones are accepted in silence."""
        self._on_loop(lambda: setattr(self._faults, "swallow", True))

    def hold(self) -> None:
        """Keep all bytes back from now on and deliver them at `heal()`: the answer that comes after the deadline."""

        def apply() -> None:
            self._faults.hold = True
            self._faults.go_on.clear()

        self._on_loop(apply)

    def refuse(self) -> None:
        """Reset new connections at once; those that stand go on."""
        self._on_loop(lambda: setattr(self._faults, "refuse", True))

    def cut(self) -> None:
        """Reset every connection that stands, now; new ones work."""
        self._on_loop(self._reset_all)

    def cut_after(self, byte_count: int, *, direction: str = "down") -> None:
        """Reset all connections when exactly `byte_count` further bytes have passed in one direction; works once."""
        assert direction in self.bytes_relayed
        self._on_loop(lambda: self._faults.cut_after.update({direction: byte_count}))

    def heal(self) -> None:
        """End all faults; what was held is delivered, what was swallowed stays lost."""

        def apply() -> None:
            self._faults.swallow = self._faults.hold = self._faults.refuse = False
            self._faults.cut_after.clear()
            self._faults.go_on.set()

        self._on_loop(apply)

    def stop(self) -> None:
        """Close every listener and connection and end the thread. Twice is harmless."""
        if not self._thread.is_alive():
            return

        async def close() -> None:
            for server in self._servers:
                server.close()
            self._reset_all()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            self._call(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Endpoint
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._faults.refuse:
                _reset(writer)
                return
            self.connections += 1
            try:
                far_reader, far_writer = await asyncio.open_connection(*target, limit=CHUNK_BYTES)
            except OSError:
                _reset(writer)
                return
            ends = {writer, far_writer}
            self._writers |= ends
            try:
                for end in ends:
                    # Its own waiting for full packets would add to the delay.
                    end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                turn = _Turn()
                up = self._pump("up", reader, far_writer, turn)
                down = self._pump("down", far_reader, writer, turn)
                await asyncio.gather(up, down)
            finally:
                self._writers -= ends
                for end in ends:
                    end.close()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)

    async def _pump(
        self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: _Turn
    ) -> None:
        """Move bytes one way: a reader stamps each chunk with the time it is due, a sender waits for that time."""
        line: deque[tuple[float, bytes]] = deque()
        wake, room = asyncio.Event(), asyncio.Event()
        room.set()
        held = 0

        async def send() -> None:
            nonlocal held
            while True:
                while not line:
                    wake.clear()
                    await wake.wait()
                due, chunk = line[0]
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._faults.go_on.wait()
                line.popleft()
                held -= len(chunk)
                if held < HELD_BYTES_MAX:
                    room.set()
                if not chunk:
                    with contextlib.suppress(OSError, RuntimeError):
                        writer.write_eof()
                    return
                if not self._faults.swallow:
                    writer.write(self._fitting(direction, chunk))
                    await writer.drain()
                    if self._faults.cut_after.get(direction) == 0:
                        del self._faults.cut_after[direction]
                        self._reset_all()

        sender = asyncio.ensure_future(send())
        try:
            while True:
                try:
                    chunk = await reader.read(CHUNK_BYTES)
                except OSError:
                    _reset(writer)
                    return
                self.round_trips += turn.spoke(direction) if chunk else 0
                line.append((self._loop.time() + self.delay_s, chunk))
                held += len(chunk)
                wake.set()
                if not chunk:
                    break
                if held >= HELD_BYTES_MAX:
                    room.clear()
                    await room.wait()
            with contextlib.suppress(OSError):
                await sender
        finally:
            sender.cancel()

    def _fitting(self, direction: str, chunk: bytes) -> bytes:
        """As much of a chunk as may pass before the cut that was asked for, counted; all of it where none was."""
        left = self._faults.cut_after.get(direction)
        if left is not None:
            chunk = chunk[:left]
            self._faults.cut_after[direction] = left - len(chunk)
        self.bytes_relayed[direction] += len(chunk)
        return chunk

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    def _on_loop(self, action: Callable[[], None]) -> None:
        async def act() -> None:
            action()

        self._call(act())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    def __enter__(self) -> Relay:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a lost peer looks, and not with an orderly end of file."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()


def _endpoint(text: str) -> Endpoint:
    address, _, port = text.rpartition(":")
    return address, int(port)


def main(arguments: Sequence[str]) -> None:
    """Run a relay until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.relay", description="relay TCP with a fixed delay"
    )
    parser.add_argument("--delay-ms", type=float, default=0.0, help="added in each direction")
    parser.add_argument("pairs", nargs="+", metavar="LISTEN=TARGET", help="ADDRESS:PORT=ADDRESS:PORT")
    chosen = parser.parse_args(arguments)
    with Relay(delay_s=chosen.delay_ms / 1000) as relay:
        for pair in chosen.pairs:
            listen, _, target = pair.partition("=")
            address, port = relay.add(_endpoint(target), listen=_endpoint(listen))
            print(f"{address}:{port}={target}", flush=True)
        print("ready", flush=True)
        sys.stdin.read()
        print(f"round trips: {relay.round_trips}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A few threads that run the cells' queues: one batch of one cell at a time, never two of the same cell.

Results go back to the event loop together: one wake-up for whatever finished meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")

# Threads for calls that wait for the blob store: leases, snapshots, restores.
IO_THREADS = 16

_Work = tuple[Callable[[], object], Callable[[object], None]]


class Pool:
    """`workers` threads for SQLite and IO_THREADS for the blob store, tied to one event loop."""

    def __init__(self, workers: int, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._todo: SimpleQueue[_Work | None] = SimpleQueue()
        self._done: deque[tuple[Callable[[object], None], object]] = deque()
        self._woken = False
        self._io = ThreadPoolExecutor(IO_THREADS, thread_name_prefix="cellz-io")
        self._threads = [
            Thread(target=self._work, name=f"cellz-sql-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], object], then: Callable[[object], None]) -> None:
        """Run `work` on a thread and `then` with its result on the loop; `work` must not raise."""
        self._todo.put((work, then))

    async def io(self, call: Callable[[], T]) -> T:
        """Run a call that waits for the blob store."""
        return await self._loop.run_in_executor(self._io, call)

    def close(self) -> None:
        """Let the threads end after what is queued."""
        for _ in self._threads:
            self._todo.put(None)
        self._io.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            work, then = item
            self._done.append((then, work()))
            if not self._woken:
                self._woken = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    return  # the loop is closed: nobody waits any more

    def _deliver(self) -> None:
        self._woken = False
        while self._done:
            then, result = self._done.popleft()
            then(result)

"""Where the cells' batches run: one batch of one cell at a time, never two of the same cell.

What comes up in one turn of the event loop is gathered until its end. Light batches then run there, one after
the other, while the disk keeps up (`pace`); the others go to a few threads, whose results come back to the loop
together: one wake-up for whatever finished meanwhile. What nobody waits for has a thread of lower priority.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

from fleetctl.cellz.pace import Pace

T = TypeVar("T")

# Threads for calls that wait for the blob store: leases, snapshots, restores.
IO_THREADS = 16

# How much nicer than the loop the thread is that empties WALs: on a busy processor it gets about a seventh of it.
_YIELDING_NICE = 8

# Light batches may hold the loop for this long at the end of a turn; what is left waits for the next one.
_TURN_S = 0.01


class Batch(Protocol):
    """Work of one cell."""

    light: bool
    yielding: bool

    def run_here(self) -> bool:
        """Run a light batch on the loop; False if it would have to wait, and then nothing was done."""

    def run(self) -> None:
        """Run on a thread; never raises."""

    def done(self) -> None:
        """Tell those who wait, on the loop."""


class Pool:
    """`workers` threads for SQLite and IO_THREADS for the blob store, tied to one event loop."""

    def __init__(self, workers: int, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._pace = Pace()
        self._turn: deque[Callable[[], Batch]] = deque()
        self._todo: SimpleQueue[Batch | None] = SimpleQueue()
        self._yielding: SimpleQueue[Batch | None] = SimpleQueue()
        self._done: deque[Batch] = deque()
        self._woken = False
        self._io = ThreadPoolExecutor(IO_THREADS, thread_name_prefix="cellz-io")
        self._threads = [
            Thread(target=self._work, args=(self._todo,), name=f"cellz-sql-{number}", daemon=True)
            for number in range(workers)
        ]
        self._threads.append(Thread(target=self._yield_and_work, name="cellz-upkeep", daemon=True))
        for thread in self._threads:
            thread.start()

    def submit(self, take: Callable[[], Batch]) -> None:
        """Have a cell's batch run; `take` is asked for it at the end of this turn of the loop."""
        if not self._turn:
            self._loop.call_soon(self._end_turn)
        self._turn.append(take)

    def _end_turn(self) -> None:
        """Run what is light, and hand over the rest; who waits for the results goes on after all of them.

        Doing one kind of work for many requests in a row, instead of everything for each, is a third faster.
        """
        began = self._now()
        until = began + _TURN_S
        try:
            while self._turn and began < until:
                batch = self._turn.popleft()()
                if not (batch.light and self._pace.quick(began) and batch.run_here()):
                    (self._yielding if batch.yielding else self._todo).put(batch)
                    continue
                ended = self._now()
                self._pace.took(began, ended)
                began = ended
                batch.done()
        finally:
            if self._turn:
                self._loop.call_soon(self._end_turn)

    async def io(self, call: Callable[[], T]) -> T:
        """Run a call that waits for the blob store."""
        return await self._loop.run_in_executor(self._io, call)

    def close(self) -> None:
        """Let the threads end after what is queued."""
        for _ in self._threads[:-1]:
            self._todo.put(None)
        self._yielding.put(None)
        self._io.shutdown(wait=False, cancel_futures=True)

    def _yield_and_work(self) -> None:
        if sys.platform == "linux":  # elsewhere a thread has no priority of its own
            own = threading.get_native_id()
            with suppress(OSError):  # a sandbox may forbid it; it is a courtesy
                os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + _YIELDING_NICE)
        self._work(self._yielding)

    def _work(self, todo: SimpleQueue[Batch | None]) -> None:
        while (item := todo.get()) is not None:
            item.run()
            self._done.append(item)
            if not self._woken:
                self._woken = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    return  # the loop is closed: nobody waits any more

    def _deliver(self) -> None:
        self._woken = False
        while self._done:
            self._done.popleft().done()

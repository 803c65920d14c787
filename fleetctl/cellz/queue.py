"""The queue of one cell: jobs in order, in batches through the pool, and what follows from them on the loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fleetctl.cellz.database import CellDb
from fleetctl.cellz.ops import Op
from fleetctl.cellz.pool import Pool
from fleetctl.cellz.trouble import is_busy

# Jobs taken from a cell's queue at once: one transaction, one place in the shared log.
BATCH_MAX = 128


class Job(NamedTuple):
    """A write (`op`) or a read (`read`), who waits for it, and what is done on the loop in its turn.

    `yielding`: nobody waits for it, so it gives way to whatever else wants the processor.
    """

    op: Op | None
    read: Callable[[CellDb], Any] | None
    future: asyncio.Future[Any]
    then: Callable[[Any], None] | None = None
    yielding: bool = False


class Owner(Protocol):
    """What the queue asks of its cell; `run_read` and `run_writes` give errors as results."""

    def light(self, op: Op) -> bool:
        """Return whether a write is short and waits for nothing but the page cache."""

    def run_read(self, read: Callable[[CellDb], Any]) -> Any:
        """Run one read, on the pool."""

    def run_writes(self, ops: list[Op], *, patient: bool) -> list[Any]:
        """Run neighbouring writes as one transaction, one result each; `patient` ones wait for a lock."""

    def noticed(self, op: Op | None, result: Any) -> Any:
        """Take note of a result on the loop, and return what its waiter is told."""


class JobQueue:
    """Jobs of `owner`, used on the event loop only."""

    __slots__ = ("_batch_open", "_jobs", "_pool", "owner")

    def __init__(self, owner: Owner, pool: Pool) -> None:
        self.owner = owner
        self._pool = pool
        self._jobs: deque[Job] = deque()
        self._batch_open = False

    def idle(self) -> bool:
        """Return whether nothing runs or waits."""
        return not self._batch_open and not self._jobs

    def put(
        self,
        op: Op | None,
        read: Callable[[CellDb], Any] | None = None,
        then: Callable[[Any], None] | None = None,
        *,
        yielding: bool = False,
    ) -> asyncio.Future[Any]:
        """Add a job and return the future of its result."""
        job = Job(op, read, asyncio.get_running_loop().create_future(), then, yielding)
        self._jobs.append(job)
        if not self._batch_open:
            self._open_batch()
        return job.future

    def _open_batch(self) -> None:
        self._batch_open = True
        self._pool.submit(self._take)

    def _take(self) -> CellBatch:
        """Return the next batch: what came since the last one was taken, up to BATCH_MAX jobs.

        A yielding job is a batch of its own: those who wait are not served at its priority.
        """
        jobs = [self._jobs.popleft()]
        while self._jobs and len(jobs) < BATCH_MAX and not (jobs[0].yielding or self._jobs[0].yielding):
            jobs.append(self._jobs.popleft())
        return CellBatch(self, jobs)

    def settle(self, batch: CellBatch) -> None:
        """Tell those who wait for a batch, and go on with what came meanwhile."""
        for job, given in zip(batch.jobs, batch.results, strict=True):
            result = self.owner.noticed(job.op, given)
            if job.then is not None and not isinstance(result, Exception):
                job.then(result)
            if job.future.done():
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
                # A job that nobody waits for (a WAL to be trimmed) has told its cell all there is to tell.
                job.future.exception()
            else:
                job.future.set_result(result)
        self._batch_open = False
        if self._jobs:
            self._open_batch()


class CellBatch:
    """Some jobs of one queue, run together (`pool.Batch`)."""

    __slots__ = ("_queue", "jobs", "light", "results", "yielding")

    def __init__(self, queue: JobQueue, jobs: list[Job]) -> None:
        self._queue = queue
        self.jobs = jobs
        self.results: list[Any] = []
        light = queue.owner.light
        self.light = all(job.op is not None and light(job.op) for job in jobs)
        self.yielding = jobs[0].yielding

    def run_here(self) -> bool:
        """Run the writes as one transaction on the loop; False if another process has the database locked."""
        ops = [job.op for job in self.jobs if job.op is not None]
        results = self._queue.owner.run_writes(ops, patient=False)
        if isinstance(results[0], sqlite3.Error) and is_busy(results[0]):
            return False
        self.results = results
        return True

    def run(self) -> None:
        """Run on a pool thread: neighbouring writes together, reads between them in order."""
        owner, jobs = self._queue.owner, self.jobs
        at = 0
        while at < len(jobs):
            read = jobs[at].read
            if read is not None:
                self.results.append(owner.run_read(read))
                at += 1
                continue
            ops: list[Op] = []
            while at < len(jobs) and (op := jobs[at].op) is not None:
                ops.append(op)
                at += 1
            self.results += owner.run_writes(ops, patient=True)

    def done(self) -> None:
        """Tell those who wait."""
        self._queue.settle(self)

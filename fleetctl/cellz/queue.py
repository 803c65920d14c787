"""The queue of one cell: jobs in order, in batches on the pool, and what follows from them on the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from fleetctl.cellz.database import CellDb
from fleetctl.cellz.ops import Op
from fleetctl.cellz.pool import Pool

# Jobs taken from a cell's queue at once: one transaction, one place in the shared log.
BATCH_MAX = 128


class Job(NamedTuple):
    """A write (`op`) or a read (`read`), who waits for it, and what is done on the loop in its turn."""

    op: Op | None
    read: Callable[[CellDb], Any] | None
    future: asyncio.Future[Any]
    then: Callable[[Any], None] | None = None


class Owner(Protocol):
    """What the queue asks of its cell; the first two run on the pool and give errors as results."""

    def run_read(self, read: Callable[[CellDb], Any]) -> Any:
        """Run one read."""

    def run_writes(self, ops: list[Op]) -> list[Any]:
        """Run neighbouring writes as one transaction, one result each."""

    def noticed(self, op: Op | None, result: Any) -> Any:
        """Take note of a result on the loop, and return what its waiter is told."""


class JobQueue:
    """Jobs of `owner`, used on the event loop only."""

    __slots__ = ("_batch_open", "_jobs", "_owner", "_pool")

    def __init__(self, owner: Owner, pool: Pool) -> None:
        self._owner = owner
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
    ) -> asyncio.Future[Any]:
        """Add a job and return the future of its result."""
        job = Job(op, read, asyncio.get_running_loop().create_future(), then)
        self._jobs.append(job)
        if not self._batch_open:
            self._open_batch()
        return job.future

    def _open_batch(self) -> None:
        self._batch_open = True
        batch = [self._jobs.popleft() for _ in range(min(BATCH_MAX, len(self._jobs)))]
        self._pool.submit(lambda: self._run(batch), lambda results: self._done(batch, results))

    def _run(self, batch: list[Job]) -> list[Any]:
        """Run on a pool thread: neighbouring writes together, reads between them in order."""
        results: list[Any] = []
        at = 0
        while at < len(batch):
            read = batch[at].read
            if read is not None:
                results.append(self._owner.run_read(read))
                at += 1
                continue
            ops: list[Op] = []
            while at < len(batch) and (op := batch[at].op) is not None:
                ops.append(op)
                at += 1
            results += self._owner.run_writes(ops)
        return results

    def _done(self, batch: list[Job], results: Any) -> None:
        for job, given in zip(batch, results, strict=True):
            result = self._owner.noticed(job.op, given)
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

"""SIGINT and SIGTERM become events of the loop, for as long as a run lasts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from executors.clock import Clock
from fleetctl.engine.events import Signalled
from fleetctl.engine.pool import Pool
from manifests.errors import ExitCode

_CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


@contextmanager
def heard(pool: Pool, clock: Clock) -> Iterator[None]:
    """Hands both signals to the pool's queue; outside the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(number: int, frame: FrameType | None) -> None:
        del frame
        pool.put(Signalled(_CODES[signal.Signals(number)], clock.monotonic()))

    before = {number: signal.signal(number, tell) for number in _CODES}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""One command in a container, heard until its end, and the bound on how long that is waited for."""

from __future__ import annotations

import threading
from typing import Any

from executors.command import Hear
from executors.transport import OutcomeLost


def exchange(api: Any, made: str, hear: Hear, host: str, timeout_s: float) -> None:
    """Starts the command that was made and hears its output until its end. Raises OutcomeLost past `timeout_s`."""
    stream = api.exec_start(made, stream=True, demux=True)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        stream.close()

    # The library waits for output without an end; what closes its connection ends the wait.
    timer = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), give_up)
    timer.daemon = True
    timer.start()
    try:
        for out, err in stream:
            if out:
                hear(out, False)
            if err:
                hear(err, True)
    except OSError:
        if not late.is_set():
            raise
    finally:
        timer.cancel()
        if not late.is_set():
            stream.close()
    if late.is_set():
        raise OutcomeLost(
            f"host/{host}: the command did not end within {timeout_s:g} s",
            hint="it may still run in the container: the engine cannot end it",
        )

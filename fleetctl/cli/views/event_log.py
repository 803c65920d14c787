"""The file of `--events`: one JSON object a line, written by a thread of its own, so that a slow reader delays nothing.

No event is dropped: what its reader has not taken yet is kept, and the command waits for it at its end, within a
bound. A regular file is appended to; a FIFO is opened when its reader comes.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from executors.clock import Clock, rfc3339
from fleetctl.cli.views.event_types import VERSION
from manifests.errors import FleetctlError

if TYPE_CHECKING:
    from fleetctl.cli.views.events import Event

# How long a command waits at its end for a reader that does not take its events.
READER_PATIENCE_S = 10.0
STDOUT = "-"


class EventsError(FleetctlError):
    """The events cannot be written where they were asked for."""

    code = "events.unwritable"


class EventLog:
    """Takes events from any thread, at once. `place` is a path, or `-` for stdout; `count` is the number of the last."""

    def __init__(self, place: str, clock: Clock, count: int = 0) -> None:
        """Opens the file. Raises EventsError."""
        self.place = place
        self.count = count
        self._begun = count
        self._clock = clock
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._taken = 0
        self._error = ""
        self._fd = None if place != STDOUT and _is_fifo(place) else _open(place)
        self._thread = threading.Thread(target=self._serve, name="events", daemon=True)
        self._thread.start()

    def put(self, event: Event, fleet: str | None = None) -> None:
        """Adds the envelope and hands the line to the writer."""
        with self._lock:
            self.count += 1
            envelope = {"v": VERSION, "n": self.count, "at": rfc3339(self._clock.now())}
            whose = {} if fleet is None else {"fleet": fleet}
            line = json.dumps({**envelope, "type": event["type"], **whose, **event}, ensure_ascii=False)
            # A node's words may be half a character; JSON is whole ones.
            self._lines.put(line.encode("utf-8", "replace") + b"\n")

    def close(self, patience_s: float = READER_PATIENCE_S) -> str:
        """Waits for the reader, within bounds; gives what went wrong, in words, or nothing."""
        self._lines.put(None)
        self._thread.join(patience_s)
        count = self.count - self._begun
        left = count - self._taken
        if self._error:
            return f"the events could not be written to {self.place}: {self._error}"
        if left:
            return f"{left} of {count} events were not taken by the reader of {self.place}"
        return ""

    def _serve(self) -> None:
        try:
            fd = _open(self.place) if self._fd is None else self._fd
        except EventsError as e:
            self._error = e.message
            return
        while (line := self._lines.get()) is not None:
            try:
                while line:
                    line = line[os.write(fd, line) :]
            except OSError as e:
                self._error = e.strerror or str(e)
                break  # a reader that went away is no reason to stop a rollout
            self._taken += 1
        if self.place != STDOUT:
            os.close(fd)


def _is_fifo(place: str) -> bool:
    try:
        return stat.S_ISFIFO(Path(place).stat().st_mode)
    except OSError:
        return False


def _open(place: str) -> int:
    if place == STDOUT:
        return 1
    try:
        # It holds what nodes have said, so it is for its owner.
        return os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise EventsError(
            f"the events cannot be written to {place}: {e.strerror}", hint="name a file: --events FILE"
        ) from e

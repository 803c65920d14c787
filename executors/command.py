"""A command as a value, and what came of it. Built by pure functions, so that tests compare whole lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# More output than this is cut in the middle: a node that talks must not fill the controller's memory.
OUTPUT_MAX_B = 4 * 2**20


# What is meant to run until somebody has seen enough; select(2) and poll(2) are asked for less at a time.
UNBOUNDED_S = 10 * 365 * 86_400.0

Hear = Callable[[bytes, bool], None]
"""Hears output as it comes, in pieces; True: it came from the error stream. What it raises ends the command."""


def deaf(data: bytes, error: bool) -> None:
    """Nobody listens."""
    del data, error


@dataclass(frozen=True, slots=True)
class Command:
    """An argument list with its input. `timeout_s` bounds the whole of it, from start to exit status.

    `secret_input` says that `stdin` must never be shown. `guarded` says that a script with a record of its
    own is at work: past its timeout it is left alone, to end and to be looked up. Any other command is
    ended with its process group, where the transport can. On this machine each
    output past `output_max_b` is cut in the middle; over SSH that is OUTPUT_MAX_B.
    With `open_input` the input stays open behind `stdin` until the command has ended:
    its end tells a command elsewhere that nobody waits for it any more.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    timeout_s: float = 30.0
    secret_input: bool = False
    guarded: bool = False
    output_max_b: int = OUTPUT_MAX_B
    open_input: bool = False


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that came back with an exit status. Outputs are bounded by the command's `output_max_b`."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.status == 0


class Tail:
    """Collects a stream within its limit: keeps the beginning and the end, and says what was cut."""

    def __init__(self, limit_b: int = OUTPUT_MAX_B) -> None:
        self._half_b = limit_b // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut_b = 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the stream."""
        room = self._half_b - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Twice the half before trimming, so that a trickle is not copied on every read.
        if len(self._tail) > 2 * self._half_b:
            self._trim()

    def value(self) -> bytes:
        """What was kept; a line in the middle says how much is missing."""
        self._trim()
        if not self._cut_b:
            return bytes(self._head + self._tail)
        return b"%b\n[... %d bytes cut ...]\n%b" % (bytes(self._head), self._cut_b, bytes(self._tail))

    def _trim(self) -> None:
        over_b = len(self._tail) - self._half_b
        if over_b > 0:
            del self._tail[:over_b]
            self._cut_b += over_b

"""A command as a value, and what came of it. Built by pure functions, so that tests compare whole lines."""

from __future__ import annotations

from dataclasses import dataclass

# More output than this is cut in the middle: a node that talks must not fill the controller's memory.
OUTPUT_MAX_B = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Command:
    """An argument list with its input. `timeout_s` bounds the whole of it, from start to exit status.

    `secret_input` says that `stdin` must never be shown.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    timeout_s: float = 30.0
    secret_input: bool = False


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that came back with an exit status. Outputs are bounded by OUTPUT_MAX_B."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.status == 0

"""sudo without a guess: our own prompt token, and a token of our own when the command starts.

Nothing of the command's input is sent before the start token was seen, so a sudo that asks, lectures,
refuses or prints another prompt means: the command has not started.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class BecomeTokens:
    """Two texts that appear nowhere else: what sudo prompts with, and what is printed when the command starts."""

    prompt: str
    started: str


def wrap(argv: tuple[str, ...], user: str, tokens: BecomeTokens, *, with_password: bool) -> str:
    """The remote command line: sudo, then a shell that prints the start token to stderr and becomes the command."""
    start = f"printf %s {shlex.quote(tokens.started)} >&2; exec {shlex.join(argv)}"
    asking = ["-S", "-p", tokens.prompt] if with_password else ["-n"]
    return shlex.join(["sudo", *asking, "-u", user, "--", "/bin/sh", "-c", start])


class Phase(Enum):
    """How far sudo is."""

    WAITING = "waiting"  # neither prompt nor start was seen
    ASKED = "asked"  # the prompt was seen for the first time: send the password
    WRONG = "wrong"  # a second prompt: the password was not accepted
    STARTED = "started"


@dataclass
class Dialogue:
    """Follows stderr until the command starts; what follows the start token is the command's own."""

    tokens: BecomeTokens
    seen: bytes = b""
    prompts: int = 0
    phase: Phase = Phase.WAITING
    rest: bytes = field(default=b"")

    def feed(self, data: bytes) -> Phase:
        """Takes more of stderr and says how far sudo is now."""
        self.seen += data
        started = self.tokens.started.encode()
        head, found, tail = self.seen.partition(started)
        prompts = head.count(self.tokens.prompt.encode())
        if found:
            self.phase, self.rest = Phase.STARTED, tail
        elif prompts > 1:
            self.phase = Phase.WRONG
        elif prompts == 1 and self.prompts == 0:
            self.phase = Phase.ASKED
        elif self.phase is Phase.ASKED:
            self.phase = Phase.WAITING
        self.prompts = prompts
        return self.phase

    def text(self) -> str:
        """What sudo said, without our prompt, for people."""
        return self.seen.replace(self.tokens.prompt.encode(), b"").decode("utf-8", "replace").strip()

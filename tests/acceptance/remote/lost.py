"""Answers that are lost at an exact instant, between a real driver and a real system."""

from __future__ import annotations

import socket
from enum import Enum
from typing import Any, BinaryIO

from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ReadTimeout

from executors.command import Command, Completed
from executors.transport import OutcomeLost, Transport


class When(Enum):
    """Where the next effect is cut off."""

    NEVER = "never"
    BEFORE = "before it arrives"
    BEGUN = "when it has begun and not acted"
    AFTER = "when it is done, before its answer"


# Whatever the guarded script would do first is a kill of the script itself: it has recorded that it begins.
_KILLED = "".join(
    f"{name}() {{ kill -KILL $$; }}\n"
    for name in ("place", "verify_artifact", "ask_to_stop", "sup_reload", "sup_remove")
)


class LosingTransport:
    """A transport that loses the answer of the next effect (`when`), and carries everything else."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.when = When.NEVER

    def run(self, command: Command) -> Completed:
        if not command.guarded or self.when is When.NEVER:
            return self.inner.run(command)
        when, self.when = self.when, When.NEVER
        if when is When.AFTER:
            self.inner.run(command)
        elif when is When.BEGUN:
            head, _, last = command.stdin.rstrip(b"\n").rpartition(b"\n")
            cut = head + b"\n" + _KILLED.encode() + last + b"\n"
            return self.inner.run(Command(command.argv, cut, timeout_s=command.timeout_s, guarded=True))
        raise OutcomeLost("the laboratory lost the answer")

    def put(self, source: BinaryIO, size_b: int, digest: str, path: str, mode: int = 0o644) -> None:
        self.inner.put(source, size_b, digest, path, mode)
        if self.when is When.AFTER:
            self.when = When.NEVER
            raise OutcomeLost("the laboratory lost the answer")

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        return self.inner.connect(address, port, timeout_s)

    def close(self) -> None:
        self.inner.close()


class LosingEngine:
    """Makes an engine's client lose the answer of the next request whose path ends so."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.when = When.NEVER
        self.request = ("", "")
        self._send = api.send
        api.send = self._sent

    def lose(self, when: When, method: str, end: str) -> None:
        """The next request of this method whose path has this end loses its answer, or never leaves."""
        self.when, self.request = when, (method, end)

    def _sent(self, request: Any, **more: Any) -> Any:
        method, end = self.request
        path = str(request.url).partition("?")[0]
        if self.when is When.NEVER or request.method != method or not path.endswith(end):
            return self._send(request, **more)
        when, self.when = self.when, When.NEVER
        if when is When.BEFORE:
            raise NoConnection("the laboratory lost the request")
        self._send(request, **more).close()
        raise ReadTimeout("the laboratory lost the answer")

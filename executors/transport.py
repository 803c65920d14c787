"""The port through which the host driver reaches a host: run a command, put a file, open a connection."""

from __future__ import annotations

import socket
from typing import BinaryIO, Protocol

from executors.command import Command, Completed, Hear
from manifests.errors import FleetctlError


class TransportError(FleetctlError):
    """The host could not be reached, or refused; no command of ours has run. Safe to try again."""

    code = "transport.unreachable"


class OutcomeLost(FleetctlError):
    """A command was sent and its exit status never came: it may or may not have run, or may still run."""

    code = "transport.outcome_lost"

    def __init__(
        self, message: str, *, stdout: bytes = b"", stderr: bytes = b"", hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.stdout = stdout
        self.stderr = stderr


class Transport(Protocol):
    """One host. Safe for use by several threads; connects when first used.

    Every method raises TransportError when nothing was sent, and OutcomeLost when something was sent
    and the answer did not come (timeout, connection lost, no exit status).
    """

    def run(self, command: Command) -> Completed:
        """Runs a command and gives its exit status, whatever it is."""
        ...

    def stream(self, command: Command, hear: Hear) -> Completed:
        """As `run`, while `hear` is told each piece of output when it comes, by the calling thread.

        Where that raises, or is interrupted, the command is ended as past its timeout.
        """
        ...

    def put(self, source: BinaryIO, size_b: int, digest: str, path: str, mode: int = 0o644) -> None:
        """Makes `path` (absolute) the file with exactly these bytes: temporary name in the same folder, sha256
        verified on the host, fsync, rename. A file that is there with this digest is left alone. Folders are made.
        """
        ...

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        """A byte stream to address:port as seen from the host (for probes); raises OSError when refused."""
        ...

    def close(self) -> None:
        """Ends the connection; the transport is not used again."""
        ...

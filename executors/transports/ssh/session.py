"""One command on one channel: both streams drained together and bounded, one deadline over all of it."""

from __future__ import annotations

import select
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from executors.clock import Clock
from executors.command import OUTPUT_MAX_B, Completed, Hear, deaf
from executors.transport import OutcomeLost
from executors.transports.ssh.become import Dialogue, Phase
from executors.transports.ssh.errors import BecomeError

if TYPE_CHECKING:
    import paramiko

_CHUNK_B = 32_768
# While input is still to be sent, the window opens without any event on the channel.
_SEND_POLL_S = 0.005
_STATUS_POLL_S = 0.02
# After the exit status the rest of the output is in flight at most this long; a background child that
# keeps the streams open must not keep us.
_TAIL_S = 1.0
# sudo that neither asks nor starts the command within this is stuck (PAM, LDAP, a prompt of its own).
BECOME_TIMEOUT_S = 20.0


@dataclass
class Bounded:
    """Keeps the first and the last half of at most OUTPUT_MAX_B bytes, and says what was left out."""

    limit: int = OUTPUT_MAX_B
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, data: bytes) -> None:
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        excess = len(self.tail) - self.limit // 2
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess

    def bytes(self) -> bytes:
        if not self.dropped:
            return bytes(self.head + self.tail)
        return bytes(self.head) + f"\n[{self.dropped} bytes left out]\n".encode() + bytes(self.tail)


@dataclass
class Session:
    """Follows one command to its exit status.

    `password` is sent when sudo asks for it (only with `dialogue`). `hear` is told the output as it comes; with
    `open_input` the input's end is not sent. Raises OutcomeLost when no exit status
    came within the deadline or at all, and BecomeError when the command was not started.
    """

    channel: paramiko.Channel
    clock: Clock
    label: str
    stdin: BinaryIO
    timeout_s: float
    dialogue: Dialogue | None = None
    password: str | None = None
    hear: Hear = deaf
    open_input: bool = False
    out: Bounded = field(default_factory=Bounded)
    err: Bounded = field(default_factory=Bounded)
    unsent: bytes = b""

    def run(self) -> Completed:
        started = self.clock.monotonic()
        waiting_for_sudo = self.dialogue is not None
        eof_sent = False
        status_seen_at: float | None = None
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        while True:
            now = self.clock.monotonic()
            moved = self._drain()
            if waiting_for_sudo and self._sudo_is_through(now - started):
                waiting_for_sudo = False
            if not waiting_for_sudo and not eof_sent:
                eof_sent = self._send()
            if self.channel.exit_status_ready():
                status_seen_at = status_seen_at or now
                ended = self.channel.closed or self.channel.eof_received or now - status_seen_at > _TAIL_S
                if ended and not moved:
                    return self._completed(waiting_for_sudo)
            elif self.channel.closed and not moved:
                raise self._lost("the connection ended before the exit status")
            if now - started > self.timeout_s:
                self.channel.close()
                raise self._lost(f"no exit status within {self.timeout_s:g} s")
            if not moved and self.channel.eof_received:
                # The end of the streams makes every poll return at once; only the status is still to come.
                self.channel.status_event.wait(_STATUS_POLL_S)
            elif not moved:
                left = max(0.0, self.timeout_s - (now - started))
                poll.poll(1000 * min(0.1 if eof_sent or waiting_for_sudo else _SEND_POLL_S, left + 0.001))

    def _drain(self) -> bool:
        moved = False
        while self.channel.recv_ready():
            data = self.channel.recv(_CHUNK_B)
            self.out.add(data)
            self.hear(data, False)
            moved = True
        while self.channel.recv_stderr_ready():
            data = self.channel.recv_stderr(_CHUNK_B)
            moved = True
            if self.dialogue is not None and self.dialogue.phase is not Phase.STARTED:
                if self.dialogue.feed(data) is not Phase.STARTED:
                    continue
                data = self.dialogue.rest
            if data:
                self.err.add(data)
                self.hear(data, True)
        return moved

    def _sudo_is_through(self, elapsed_s: float) -> bool:
        dialogue = self.dialogue
        assert dialogue is not None
        if dialogue.phase is Phase.STARTED:
            return True
        if dialogue.phase is Phase.ASKED:
            if self.password is None:
                self._refuse("sudo asks for a password", "set become.password to a secret reference")
            else:
                self.channel.sendall(self.password.encode() + b"\n")
                dialogue.feed(b"")
        elif dialogue.phase is Phase.WRONG:
            self._refuse("sudo did not accept the password", "check the secret that become.password names")
        if elapsed_s > min(BECOME_TIMEOUT_S, self.timeout_s):
            self._refuse(f"sudo did not start the command within {elapsed_s:.0f} s", None)
        return False

    def _send(self) -> bool:
        """Sends as much of the input as the window takes; True once its end was sent."""
        while self.channel.send_ready() and not self.channel.closed:
            if not self.unsent:
                self.unsent = self.stdin.read(_CHUNK_B)
                if not self.unsent:
                    if not self.open_input:
                        self.channel.shutdown_write()
                    return True
            sent = self.channel.send(self.unsent)
            if sent == 0:
                return True
            self.unsent = self.unsent[sent:]
        return False

    def _completed(self, waiting_for_sudo: bool) -> Completed:
        status = self.channel.recv_exit_status()
        if waiting_for_sudo:
            self._refuse(f"sudo ended with status {status} and did not start the command", None)
        if status == -1:
            # paramiko says so when the server sent no status, or the command was killed by a signal.
            raise self._lost(
                "the command ended without an exit status (killed by a signal, or the server sent none)"
            )
        return Completed(status, self.out.bytes(), self.err.bytes())

    def _refuse(self, why: str, hint: str | None) -> None:
        assert self.dialogue is not None
        self.channel.close()
        said = self.dialogue.text()
        raise BecomeError(f"{self.label}: {why}" + (f": {said}" if said else ""), hint=hint)

    def _lost(self, why: str) -> OutcomeLost:
        return OutcomeLost(
            f"{self.label}: {why}: it may or may not have been carried out",
            stdout=self.out.bytes(),
            stderr=self.err.bytes(),
        )

"""A pseudo-terminal with a person at it: what fleetctl asks, and what is typed."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import subprocess
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from types import TracebackType
from typing import Protocol

from tests.acceptance.cli import FLEETCTL, RUN_TIMEOUT_S


class Seat(Protocol):
    """Where a person works: a folder, and the variables there; a Workspace is one."""

    @property
    def path(self) -> Path: ...

    def environment(self) -> dict[str, str]: ...


class Person:
    """fleetctl, or another program, on a terminal of its own; `screen` is everything that appeared on it."""

    def __init__(
        self,
        workspace: Seat,
        *args: str,
        program: str = FLEETCTL,
        columns: int = 100,
        rows: int = 30,
        **env: str,
    ) -> None:
        self.screen = ""
        self._master, slave = pty.openpty()
        ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**workspace.environment(), "TERM": "xterm-256color", **env}
        if "NO_COLOR" not in env:
            environment.pop("NO_COLOR")
        self.process = subprocess.Popen(
            [program, *args],
            cwd=workspace.path,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(slave)

    def __enter__(self) -> Person:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self._master)

    def see(self, text: str, timeout_s: float = 30.0) -> str:
        """Waits until the text is on the screen."""
        deadline = time.monotonic() + timeout_s
        while text not in self.screen:
            assert time.monotonic() < deadline, f"waited for {text!r}; the screen:\n{self.screen}"
            if not self._read(0.1) and self.process.poll() is not None:
                assert text in self.screen, f"it ended without {text!r}; the screen:\n{self.screen}"
        return self.screen

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def press_ctrl_c(self) -> None:
        """As the terminal does it: SIGINT to the foreground process group."""
        os.write(self._master, b"\x03")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout_s: float = RUN_TIMEOUT_S) -> int:
        """Waits for the end and gives the exit code."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end; the screen:\n{self.screen}"
            self._read(0.1)
        while self._read(0.1):
            pass
        return self.process.returncode

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], timeout_s)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self._took(data)
        self.screen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def _took(self, data: bytes) -> None:
        """For those who look at the bytes themselves."""


def _own_terminal() -> None:
    """Makes fd 0 the controlling terminal, so that Ctrl-C reaches the process."""
    from fcntl import ioctl as control
    from termios import TIOCSCTTY

    control(0, TIOCSCTTY, 0)

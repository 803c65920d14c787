"""Start a program of the laboratory, wait for it with a deadline, and end it by its own pid.

Everything started here dies with the test process even when that is killed: the kernel sends the program SIGTERM
(`setpriv --pdeathsig`), so that no engine or server outlives a run that was cut off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RUN_TIMEOUT_S = 60.0
"""Longest time a helper command may take; the slow ones (image builds) say their own."""

STOP_TIMEOUT_S = 20.0
"""Grace between SIGTERM and SIGKILL: an engine stops its containers in it."""

POLL_S = 0.02
TAIL_LINES = 15
INSTALL = "run `sh tests/lab/install-packages.sh` as root on Debian or Ubuntu"

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LabError(RuntimeError):
    """A piece of the laboratory did not do what it was asked to; the message holds the end of its log."""


def find(program: str) -> str | None:
    """Path of `program`, also when the caller's PATH lacks the sbin directories (as a plain user's does)."""
    return shutil.which(program) or shutil.which(program, path=SYSTEM_PATH)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The caller's variables and some more; programs that start others find them in the sbin directories too."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    return {**os.environ, "PATH": path, **(extra or {})}


def missing_programs(*programs: str, package_set: str = "base") -> str | None:
    """One line that names what is not installed and how to get it, or None when all is there."""
    absent = [program for program in programs if find(program) is None]
    if not absent:
        return None
    how = INSTALL if package_set == "base" else INSTALL.replace(".sh`", f".sh base {package_set}`")
    return f"not installed: {', '.join(absent)}; {how}"


def missing_root() -> str | None:
    """One line that says root is needed, or None for root."""
    return None if os.geteuid() == 0 else "needs root; run the tests as root (in a throw-away machine)"


def run(
    argv: Sequence[object],
    *,
    input_bytes: bytes | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = RUN_TIMEOUT_S,
    check: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run a helper command to its end with captured output; `LabError` when it fails and `check` is set."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        input=input_bytes,
        stdin=subprocess.DEVNULL if input_bytes is None else None,
        capture_output=True,
        env=_environment(env),
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode != 0:
        said = "\n".join(
            (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-TAIL_LINES:]
        )
        raise LabError(f"{' '.join(words)} exited {done.returncode}: {said}")
    return done


def text(argv: Sequence[object], *, timeout_s: float = RUN_TIMEOUT_S) -> str:
    """Standard output of a helper command that must succeed, stripped."""
    return run(argv, timeout_s=timeout_s).stdout.decode().strip()


def wait_until(fact: Callable[[], bool], what: str, *, timeout_s: float, poll_s: float = POLL_S) -> float:
    """Wait until `fact()` holds and return the seconds it took; `LabError` naming `what` at the deadline."""
    began = time.monotonic()
    while not fact():
        if time.monotonic() - began > timeout_s:
            raise LabError(f"{what}: not so after {timeout_s:g} s")
        time.sleep(poll_s)
    return time.monotonic() - began


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port nobody listens on at `address`. Another may take it first; whoever binds it must say so."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def answers(address: str, port: int, *, timeout_s: float = 1.0) -> bool:
    """True when something accepts TCP connections there."""
    try:
        with socket.create_connection((address, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """Pids of all children and grandchildren of `pid`, as /proc shows them now; deepest last."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The name in parentheses may hold spaces; the parent is the second word after it.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for parent in front for child in children.get(parent, [])]
        found += front
    return found


def alive(pid: int) -> bool:
    """True while the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end_pids(pids: Sequence[int], *, timeout_s: float = 5.0) -> None:
    """End processes that are not our children: SIGTERM, then SIGKILL to those left at the deadline."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        wait_until(lambda: not any(alive(pid) for pid in pids), "processes end", timeout_s=timeout_s)
    except LabError:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Daemon:
    """One program in the foreground of its own session, logging to a file, ended by its pid."""

    def __init__(
        self,
        argv: Sequence[object],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        """Start `argv` at once.

        Args:
            argv: the program and its arguments; it must stay in the foreground.
            log: file that receives standard output and error, appended.
            env: variables added to the caller's.
            user: a user name to run as (needs root).
            stop_signal: what asks it to end.
        """
        self.argv = [str(word) for word in argv]
        self.log = log
        self._stop_signal = stop_signal
        setpriv = find("setpriv")
        if setpriv is None:
            raise LabError(missing_programs("setpriv") or "setpriv vanished")
        guard = [setpriv, "--pdeathsig", stop_signal.name.removeprefix("SIG")]
        if user is not None:
            guard += ["--reuid", user, "--regid", user, "--init-groups"]
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [*guard, "--", *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=_environment(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Pid of the program (setpriv replaces itself by it)."""
        return self._process.pid

    def running(self) -> bool:
        """True until the program has ended."""
        return self._process.poll() is None

    def tail(self) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def wait_ready(self, ready: Callable[[], bool], *, timeout_s: float) -> float:
        """Wait until `ready()`; when the program ends first or the deadline passes, stop it and raise `LabError`."""

        def settled() -> bool:
            return ready() or not self.running()

        name = Path(self.argv[0]).name
        try:
            took_s = wait_until(settled, f"{name} is ready", timeout_s=timeout_s)
        except LabError as late:
            self.stop()
            raise LabError(f"{late}\n{self.tail()}") from None
        if not self.running():
            raise LabError(f"{name} exited {self._process.returncode} before it was ready\n{self.tail()}")
        return took_s

    def kill(self, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the program alone, as a fault; does not wait."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal_number)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the program and what it started: its stop signal first, SIGKILL at the deadline. Twice is harmless."""
        family = descendants(self.pid) if self.running() else []
        if self.running():
            self._process.send_signal(self._stop_signal)
            # A stopped (SIGSTOP) process takes the signal only when it goes on.
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=timeout_s)
        end_pids([pid for pid in family if alive(pid)])

    def reap(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait for the program to end after a `kill`, leaving what it started alone."""
        self._process.wait(timeout=timeout_s)

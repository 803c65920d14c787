"""This machine as a host: the same commands as over SSH, run by a child process."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from glob import escape as glob_escape
from hashlib import sha256
from pathlib import Path
from typing import IO, BinaryIO

from executors.clock import Clock, SystemClock
from executors.command import Command, Completed, Hear, Tail, deaf
from executors.transport import OutcomeLost, TransportError

_CHUNK_B = 64 * 1024
# What a command inherits of the controller's environment: where programs are and who runs them, in which
# language. Anything else (tokens, settings) is the controller's own business and must not reach a node.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# An exited child whose grandchildren keep its pipes open: its output is read this much longer, no more.
_LINGER_S = 0.2
# A partial file older than this belongs to a transfer that is gone.
_PARTIAL_AGE_S = 3600.0
# Longer waits than this do not fit into the kernel's calls.
_WAIT_MAX_S = 3600.0


class LocalTransport:
    """Runs commands on this machine, each in a session of its own, so that a Ctrl-C here ends none of them."""

    def __init__(self, clock: Clock | None = None, environ: Mapping[str, str] | None = None) -> None:
        """`environ` is what commands get instead of the few variables that a node's commands need."""
        self._clock = clock or SystemClock()
        self._environ = environ

    def run(self, command: Command) -> Completed:
        """Runs a command; see `executors.transport.Transport.run`.

        Past its timeout a guarded script is left alone (it records what it does, and is looked up);
        any other command is killed with its process group. Both raise OutcomeLost.
        """
        return self.stream(command, deaf)

    def stream(self, command: Command, hear: Hear) -> Completed:
        """Runs a command; see `executors.transport.Transport.stream`."""
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment() if self._environ is None else dict(self._environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as e:
            raise TransportError(f"cannot run {command.argv[0]!r} on this machine: {e}") from e
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        stdout, stderr = Tail(command.output_max_b), Tail(command.output_max_b)
        ended = False
        try:
            ended = self._exchange(child, command, {child.stdout: stdout, child.stderr: stderr}, hear)
        except BaseException:
            if not command.guarded:
                _kill(child)
            raise
        finally:
            for stream in (child.stdin, child.stdout, child.stderr):
                with contextlib.suppress(OSError):
                    stream.close()
        if ended:
            return Completed(child.returncode, stdout.value(), stderr.value())
        if not command.guarded:
            _kill(child)
        raise OutcomeLost(
            f"{command.argv[0]} did not end within {command.timeout_s:g} s",
            stdout=stdout.value(),
            stderr=stderr.value(),
        )

    def _exchange(
        self, child: subprocess.Popen[bytes], command: Command, outputs: dict[IO[bytes], Tail], hear: Hear
    ) -> bool:
        """Feeds stdin and drains both outputs at once; False when the timeout passed before the exit status."""
        assert child.stdin is not None
        stdin = child.stdin
        deadline = self._clock.monotonic() + command.timeout_s
        pending = memoryview(command.stdin)
        with selectors.DefaultSelector() as selector, _exit_event(child) as exited:
            for stream in outputs:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, stream)
            if exited is not None:
                selector.register(exited, selectors.EVENT_READ)
            if pending:
                os.set_blocking(stdin.fileno(), False)
                selector.register(stdin, selectors.EVENT_WRITE)
            elif not command.open_input:
                stdin.close()
            open_outputs = len(outputs)
            while open_outputs:
                left_s = deadline - self._clock.monotonic()
                if left_s <= 0:
                    return child.poll() is not None
                for key, _ in selector.select(min(left_s, _WAIT_MAX_S)):
                    if key.data is not None:
                        data = _drain(selector, key.data)
                        if data:
                            outputs[key.data].feed(data)
                            hear(data, key.data is child.stderr)
                        open_outputs -= data == b""
                    elif key.fileobj is stdin:
                        pending = _feed(selector, stdin, pending, keep=command.open_input)
                    else:
                        selector.unregister(key.fileobj)
                        deadline = min(deadline, self._clock.monotonic() + _LINGER_S)
        try:
            child.wait(max(0.0, deadline - self._clock.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def put(self, source: BinaryIO, size_b: int, digest: str, path: str, mode: int = 0o644) -> None:
        """Makes `path` the file with exactly these bytes; see `executors.transport.Transport.put`."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{self._clock.new_id()}.partial")
        try:
            if target.is_file() and _file_digest(target) == digest:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            _sweep(target, self._clock.now().timestamp() - _PARTIAL_AGE_S)
            with partial.open("xb") as out:
                found = _copy(source, out)
                out.flush()
                os.fsync(out.fileno())
            if found != (size_b, digest):
                raise TransportError(
                    f"{path} did not arrive whole: {size_b} bytes of {digest} were sent, "
                    f"{found[0]} bytes of {found[1]} came"
                )
            partial.chmod(mode)
            partial.replace(target)
            _sync_folder(target.parent)
        except OSError as e:
            raise TransportError(f"cannot write {path}: {e.strerror or e}") from e
        finally:
            partial.unlink(missing_ok=True)

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        """A connection from this machine; raises OSError."""
        return socket.create_connection((address, port), timeout=timeout_s)

    def close(self) -> None:
        """Nothing is kept open between commands."""


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept.setdefault("PATH", _DEFAULT_PATH)
    return kept


@contextlib.contextmanager
def _exit_event(child: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that becomes readable when the child has ended; None where the kernel has none."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _feed(
    selector: selectors.BaseSelector, stdin: IO[bytes], pending: memoryview, *, keep: bool
) -> memoryview:
    """Writes what fits; closes the input at its end (unless it is to be kept), or when the command does not want
    the rest.
    """
    try:
        pending = pending[os.write(stdin.fileno(), pending[:_CHUNK_B]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        pending = pending[:0]  # its exit status tells
    if not pending:
        selector.unregister(stdin)
        if not keep:
            stdin.close()
    return pending


def _drain(selector: selectors.BaseSelector, stream: IO[bytes]) -> bytes | None:
    """Reads what is there; nothing when the stream has ended, None when there is nothing yet."""
    try:
        data = os.read(stream.fileno(), _CHUNK_B)
    except BlockingIOError:
        return None
    if not data:
        selector.unregister(stream)
    return data


def _sweep(target: Path, oldest: float) -> None:
    """Removes the rests of transfers to this place that were killed long ago."""
    for rest in target.parent.glob(f".{glob_escape(target.name)}.*.partial"):
        with contextlib.suppress(OSError):
            if rest.stat().st_mtime < oldest:
                rest.unlink()


def _file_digest(path: Path) -> str:
    hasher = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_B):
            hasher.update(chunk)
    return f"sha256:{hasher.hexdigest()}"


def _copy(source: BinaryIO, out: IO[bytes]) -> tuple[int, str]:
    hasher = sha256()
    size_b = 0
    while chunk := source.read(_CHUNK_B):
        hasher.update(chunk)
        out.write(chunk)
        size_b += len(chunk)
    return size_b, f"sha256:{hasher.hexdigest()}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

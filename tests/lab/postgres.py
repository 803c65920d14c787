"""A private PostgreSQL cluster on a unix socket and on loopback, owned by an unprivileged user."""

from __future__ import annotations

import os
import pwd
import signal
import types
from pathlib import Path

from tests.lab.process import Daemon, LabError, answers, find, free_port, missing_programs, run
from tests.lab.workdir import make_work_directory, remove_work_directory

PROGRAMS = Path("/usr/lib/postgresql")
START_TIMEOUT_S = 30.0
_FAST = signal.SIGINT
OWNER = "postgres"
"""The user that Debian's package makes; PostgreSQL refuses to run as root."""


def missing() -> str | None:
    """Why no cluster can be had here, in one line, or None."""
    if _program("initdb") is None:
        return "not installed: postgresql; run `sh tests/lab/install-packages.sh postgres` as root on Debian or Ubuntu"
    return missing_programs("setpriv")


class Postgres:
    """One server with an empty database `lab`; use as a context manager, or `start()` and `stop()`."""

    def __init__(self) -> None:
        """Describe a server; nothing runs before `start()`."""
        self.port = 0
        self._daemon: Daemon | None = None
        self._directory: Path | None = None
        self._owner = OWNER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    @property
    def directory(self) -> Path:
        """Private directory with the data and the socket; gone after `stop()`."""
        if self._directory is None:
            raise LabError("this cluster is not started")
        return self._directory

    @property
    def url(self) -> str:
        """`postgresql://…` of the database, over loopback, no password asked."""
        return f"postgresql://{self._owner}@127.0.0.1:{self.port}/lab"

    def start(self) -> Postgres:
        """Make the cluster if this is the first time, start, and wait until it answers."""
        first = self._directory is None
        try:
            if first:
                self._make_cluster()
            data = self.directory / "data"
            argv = [_program("postgres") or "postgres", "-D", str(data), "-p", str(self.port)]
            argv += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.directory}"]
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for clients to leave.
            self._daemon = Daemon(argv, log=self.directory / "log", user=self._user(), stop_signal=_FAST)
            self._daemon.wait_ready(self._ready, timeout_s=START_TIMEOUT_S)
            if first:
                run(
                    [
                        _program("createdb") or "createdb",
                        "-h",
                        "127.0.0.1",
                        "-p",
                        str(self.port),
                        "-U",
                        self._owner,
                        "lab",
                    ]
                )
        except BaseException:
            self.stop()
            raise
        return self

    def halt(self) -> None:
        """Stop the server and keep its data; `start()` brings it back."""
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None

    def kill(self) -> None:
        """Kill the server with SIGKILL, as a crash would; `start()` recovers it."""
        if self._daemon is not None:
            self._daemon.kill()
            self.halt()

    def stop(self) -> None:
        """Stop the server and remove its data. Twice is harmless."""
        self.halt()
        if self._directory is not None:
            remove_work_directory(self._directory)
            self._directory = None

    def _ready(self) -> bool:
        ready = _program("pg_isready") or "pg_isready"
        if not answers("127.0.0.1", self.port):
            return False
        return run([ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False).returncode == 0

    def _user(self) -> str | None:
        return self._owner if os.geteuid() == 0 else None

    def _make_cluster(self) -> None:
        self._directory = make_work_directory("postgres")
        self.port = free_port()
        if os.geteuid() == 0:
            entry = pwd.getpwnam(OWNER)
            os.chown(self._directory, entry.pw_uid, entry.pw_gid)
        argv = [
            _program("initdb") or "initdb",
            "-D",
            str(self._directory / "data"),
            "--auth=trust",
            "--no-sync",
        ]
        as_owner = (
            ["setpriv", "--reuid", OWNER, "--regid", OWNER, "--init-groups", "--"] if self._user() else []
        )
        run([*as_owner, *argv, "--username", self._owner, "--encoding=UTF8", "--locale=C.UTF-8"])

    def __enter__(self) -> Postgres:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()


def _program(name: str) -> str | None:
    """Debian keeps the server's programs out of PATH, in a directory per version; the newest wins."""
    versions = sorted(PROGRAMS.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]), reverse=True)
    return str(versions[0]) if versions else find(name)

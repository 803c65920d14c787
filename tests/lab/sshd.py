"""Plain OpenSSH servers on loopback: quick to start, for speed and for faults that need no whole host.

One server listens on every address of 127.0.0.0/8, so each of them serves as a "host" of its own.
Logins are by key, from loopback only, as throw-away users with /bin/sh (or root, where asked for).
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.accounts import Account, add_account, remove_account
from tests.lab.keys import known_hosts_line, known_hosts_name, make_key, public_line, sign_host, sign_user
from tests.lab.process import (
    Daemon,
    LabError,
    answers,
    descendants,
    end_pids,
    find,
    free_port,
    missing_programs,
    missing_root,
    run,
)
from tests.lab.workdir import make_work_directory, remove_work_directory

START_TIMEOUT_S = 10.0
PRIVILEGE_SEPARATION = Path("/run/sshd")
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/lib/ssh/sftp-server")


def missing() -> str | None:
    """Why no server can be had here, in one line, or None."""
    return missing_programs("sshd", "ssh", "ssh-keygen", "setpriv", "useradd") or missing_root()


class LoopbackSshd:
    """One `sshd` with its own keys, users and configuration; use as a context manager, or `start()` and `stop()`."""

    def __init__(
        self,
        *,
        users: int = 1,
        allow_root: bool = False,
        host_key_kinds: Sequence[str] = ("ed25519",),
        certificates: bool = False,
        options: Mapping[str, str] | None = None,
        mounts_of: int | None = None,
    ) -> None:
        """Describe a server; nothing runs before `start()`.

        Args:
            users: how many unprivileged users to make.
            allow_root: let the key log in as root too (a slower shell; needed to reach a private Docker socket).
            host_key_kinds: kinds of host keys offered: ed25519, rsa, ecdsa.
            certificates: host keys carry certificates of `host_authority`, and user certificates of
                `user_authority` are accepted.
            options: further lines of sshd_config, such as {"MaxStartups": "3:100:3"} or {"MaxSessions": "1"}.
            mounts_of: pid of a process whose mounts (and thereby files) the logins see instead of the machine's.
        """
        self._user_count = users
        self._allow_root = allow_root
        self._host_key_kinds = tuple(host_key_kinds)
        self._certificates = certificates
        self._options = dict(options or {})
        self._mounts_of = mounts_of
        self._daemon: Daemon | None = None
        self._directory: Path | None = None
        self.accounts: tuple[Account, ...] = ()
        self.port = 0
        self.start_took_s = 0.0

    @property
    def directory(self) -> Path:
        """Private directory with keys, configuration and log; gone after `stop()`."""
        if self._directory is None:
            raise LabError("this sshd is not started")
        return self._directory

    @property
    def user(self) -> str:
        """Name of the first unprivileged user."""
        return self.accounts[0].name

    @property
    def key(self) -> Path:
        """Private key that logs in as any of the users."""
        return self.directory / "user_key"

    @property
    def host_authority(self) -> Path:
        """Key of the authority that signs host keys."""
        return self.directory / "host_authority"

    @property
    def user_authority(self) -> Path:
        """Key of the authority whose user certificates are accepted."""
        return self.directory / "user_authority"

    @property
    def pid(self) -> int:
        """Pid of the listening sshd."""
        if self._daemon is None:
            raise LabError("this sshd is not running")
        return self._daemon.pid

    @property
    def log(self) -> str:
        """All that the server has logged so far."""
        return (self.directory / "log").read_text(errors="replace")

    def addresses(self, count: int) -> tuple[str, ...]:
        """`count` different loopback addresses, all served by this one server."""
        return tuple(f"127.77.{index // 250}.{index % 250 + 1}" for index in range(count))

    def known_hosts_lines(self, *addresses: str) -> tuple[str, ...]:
        """Lines that trust this server's present host keys for the given addresses (default 127.0.0.1)."""
        keys = [public_line(self._host_key(kind)) for kind in self._host_key_kinds]
        return tuple(
            known_hosts_line(address, self.port, key)
            for address in addresses or ("127.0.0.1",)
            for key in keys
        )

    def certificate_authority_lines(self, *addresses: str) -> tuple[str, ...]:
        """Lines that trust any host key signed by `host_authority` for the given addresses (default 127.0.0.1)."""
        authority = public_line(self.host_authority)
        return tuple(
            f"@cert-authority {known_hosts_name(address, self.port)} {authority}"
            for address in addresses or ("127.0.0.1",)
        )

    def write_known_hosts(self, path: Path, *addresses: str) -> Path:
        """Write `known_hosts_lines` to a file and return its path."""
        path.write_text("".join(f"{line}\n" for line in self.known_hosts_lines(*addresses)))
        return path

    def user_certificate(self, *principals: str) -> Path:
        """A fresh key with a certificate of `user_authority` for the given logins; returns the private key."""
        key = make_key(Path(tempfile.mkdtemp(dir=self.directory)) / "key")
        sign_user(self.user_authority, key, list(principals))
        return key

    def start(self) -> LoopbackSshd:
        """Make keys and users if this is the first time, start, and wait until the port answers."""
        try:
            if self._directory is None:
                self._prepare()
            self._daemon = Daemon(self._argv(), log=self.directory / "log")
            self.start_took_s = self._daemon.wait_ready(
                lambda: answers("127.0.0.1", self.port), timeout_s=START_TIMEOUT_S
            )
        except BaseException:
            self.stop()
            raise
        return self

    def sessions(self) -> list[int]:
        """Pids of everything below the listening sshd: connections, shells, commands."""
        return descendants(self.pid)

    def kill_sessions(self) -> int:
        """Kill every connection and what it runs with SIGKILL, keeping the listener; returns how many processes."""
        family = self.sessions()
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(family)

    def kill_connections(self) -> int:
        """Kill the sshd process of every connection, leaving the commands they run alive; returns how many."""
        killed = 0
        for pid in self.sessions():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def freeze(self) -> None:
        """Stop (SIGSTOP) the listener and all connections: accepted by the kernel, answered by nobody."""
        for pid in [self.pid, *self.sessions()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let everything frozen go on."""
        for pid in [self.pid, *self.sessions()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def rotate_host_keys(self) -> None:
        """Replace all host keys and restart on the same port, as a reinstalled or impersonated host would look."""
        self.halt()
        for kind in self._host_key_kinds:
            key = self._host_key(kind)
            for path in self.directory.glob(f"{key.name}*"):
                path.unlink()
        self._make_host_keys()
        self.start()

    def halt(self, *, sessions: bool = True) -> None:
        """Stop the listener, and its connections unless `sessions` is False; `start()` brings the same server back."""
        if self._daemon is None:
            return
        family = self.sessions() if self._daemon.running() else []
        if not sessions:
            self._daemon.kill()
        for pid in family if sessions else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._daemon.stop() if sessions else self._daemon.reap()
        self._daemon = None
        if sessions:
            end_pids(family)

    def stop(self) -> None:
        """Stop everything, remove the users and the directory. Twice is harmless."""
        try:
            self.halt()
        finally:
            for account in self.accounts:
                remove_account(account.name)
            self.accounts = ()
            if self._directory is not None:
                remove_work_directory(self._directory)
                self._directory = None

    def ssh_argv(self, *words: str, address: str = "127.0.0.1", user: str | None = None) -> list[str]:
        """An OpenSSH client command line that trusts exactly this server and asks nothing."""
        trusted = self.write_known_hosts(self.directory / "known_hosts", address)
        options = [
            "-F",
            "/dev/null",
            "-o",
            f"UserKnownHostsFile={trusted}",
            "-o",
            "StrictHostKeyChecking=yes",
        ]
        options += [
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=10",
            "-i",
            str(self.key),
            "-p",
            str(self.port),
        ]
        return ["ssh", *options, f"{user or self.user}@{address}", *words]

    def ssh(self, command: str, *, address: str = "127.0.0.1", user: str | None = None) -> str:
        """Standard output of a command run through the OpenSSH client; `LabError` when it fails."""
        return run(self.ssh_argv(command, address=address, user=user)).stdout.decode()

    def _host_key(self, kind: str) -> Path:
        return self.directory / f"host_{kind}"

    def _prepare(self) -> None:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self._directory = make_work_directory("sshd", mode=0o755)
        self.port = free_port()
        make_key(self.key)
        make_key(self.host_authority)
        make_key(self.user_authority)
        self._make_host_keys()
        self.accounts = tuple(add_account(self._directory / "homes") for _ in range(self._user_count))
        authorized = self._directory / "authorized"
        authorized.write_text(f"{public_line(self.key)}\n")
        authorized.chmod(0o644)
        self._write_config()

    def _make_host_keys(self) -> None:
        for kind in self._host_key_kinds:
            make_key(self._host_key(kind), kind=kind)
            if self._certificates:
                sign_host(self.host_authority, self._host_key(kind), ["127.0.0.1", *self.addresses(250)])

    def _write_config(self) -> None:
        home = self.directory
        logins = [account.name for account in self.accounts] + (["root"] if self._allow_root else [])
        lines = [f"Port {self.port}", "ListenAddress 0.0.0.0", "PidFile none", "UseDNS no", "UsePAM no"]
        lines += [f"HostKey {self._host_key(kind)}" for kind in self._host_key_kinds]
        # StrictModes would refuse key files below /tmp, which all may write to.
        lines += [f"AuthorizedKeysFile {home / 'authorized'}", "StrictModes no", "PasswordAuthentication no"]
        lines += [f"PermitRootLogin {'prohibit-password' if self._allow_root else 'no'}", "PrintMotd no"]
        # Only from loopback: the listener itself is on every address, since it may name 16 at most.
        lines += [f"AllowUsers {' '.join(f'{login}@127.0.0.0/8' for login in logins)}", "PrintLastLog no"]
        sftp = next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")
        lines += [f"Subsystem sftp {sftp}", "AcceptEnv LANG LC_*"]
        if self._certificates:
            lines += [f"HostCertificate {self._host_key(kind)}-cert.pub" for kind in self._host_key_kinds]
            lines += [f"TrustedUserCAKeys {self.user_authority}.pub"]
        # sshd keeps the first value it reads of each option, so the caller's come before these defaults.
        lines = [f"{name} {value}" for name, value in self._options.items()] + lines
        defaults = {"MaxStartups": "500:30:1000", "MaxSessions": "50", "LogLevel": "VERBOSE"}
        lines += [f"{name} {value}" for name, value in defaults.items() if name not in self._options]
        (home / "sshd_config").write_text("".join(f"{line}\n" for line in lines))

    def _argv(self) -> list[str]:
        # sshd starts itself again for each connection and insists on an absolute path for that.
        argv = [find("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", str(self.directory / "sshd_config")]
        enter = (
            [] if self._mounts_of is None else ["nsenter", "--target", str(self._mounts_of), "--mount", "--"]
        )
        return [*enter, *argv]

    def __enter__(self) -> LoopbackSshd:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

"""SshTransport: one connection per host, several channels on it, the port `executors.transport.Transport`."""

from __future__ import annotations

import contextlib
import getpass
import io
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from executors.clock import Clock
from executors.command import Command, Completed, Hear, deaf
from executors.transport import OutcomeLost, TransportError
from executors.transports.ssh import config, known_hosts, upload
from executors.transports.ssh.become import BecomeTokens, Dialogue, wrap
from executors.transports.ssh.connection import Hop, Startups, Trust, connect, parse_jump
from executors.transports.ssh.forward import Forward, open_unix
from executors.transports.ssh.keys import AskPassphrase, Identities
from executors.transports.ssh.session import Session
from manifests.schema.host import Host, Ssh
from manifests.secret import Secret

if TYPE_CHECKING:
    import paramiko

DEFAULT_CONFIG = Path("~/.ssh/config")
DEFAULT_KNOWN_HOSTS = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))
PUT_TIMEOUT_S = 600.0
SESSION_ATTEMPTS_MAX = 6


def _nobody(question: str) -> None:
    """Answers no question: there is no terminal."""
    del question


@dataclass(frozen=True)
class SshSettings:
    """What holds for all SSH hosts of a run: who may be asked, whether new host keys are accepted, secrets."""

    clock: Clock
    resolve: Callable[[str], Secret]
    ask: AskPassphrase = _nobody
    accept_new_host_keys: bool = False
    startups: Startups = field(default_factory=Startups)
    jumps: Jumps = field(default_factory=lambda: Jumps())


class Jumps:
    """The open connections to jump hosts, shared by all hosts behind them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opening: dict[tuple[Hop, ...], threading.Lock] = {}
        self._open: dict[tuple[Hop, ...], paramiko.Transport] = {}

    def get(self, chain: tuple[Hop, ...], make: Callable[[], paramiko.Transport]) -> paramiko.Transport:
        """The connection at the end of this chain, made once."""
        with self._lock:
            lock = self._opening.setdefault(chain, threading.Lock())
        with lock:
            transport = self._open.get(chain)
            if transport is None or not transport.is_active():
                transport = self._open[chain] = make()
            return transport

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            for transport in self._open.values():
                transport.close()
            self._open.clear()


class SshTransport:
    """One SSH host. Connects when first used; a connection that ended is made anew for the next command."""

    def __init__(self, host: Host, settings: SshSettings) -> None:
        assert host.ssh is not None
        self._host = host
        self._ssh: Ssh = host.ssh
        self._settings = settings
        self._label = f"host/{host.name}"
        self._lock = threading.Lock()
        self._transport: paramiko.Transport | None = None
        self._channels = threading.BoundedSemaphore(host.ssh.sessions_max)
        self._closed = False
        self._forwards: list[Forward] = []
        self.warnings: tuple[str, ...] = ()

    def run(self, command: Command) -> Completed:
        return self._execute(command, io.BytesIO(command.stdin))

    def stream(self, command: Command, hear: Hear) -> Completed:
        return self._execute(command, io.BytesIO(command.stdin), hear)

    def _execute(self, command: Command, stdin: BinaryIO, hear: Hear = deaf) -> Completed:
        become = self._ssh.become
        dialogue: Dialogue | None = None
        if become is None:
            line = shlex.join(command.argv)
        else:
            tokens = BecomeTokens(f"[fleetctl-{self._new_id()}]", f"[started-{self._new_id()}]")
            dialogue = Dialogue(tokens)
            line = wrap(command.argv, become.user, tokens, with_password=become.password is not None)
        password = (
            self._settings.resolve(become.password.secret).reveal() if become and become.password else None
        )
        with self._channel(command.timeout_s) as channel:
            _exec(channel, line, self._label)
            return Session(
                channel,
                self._settings.clock,
                self._label,
                stdin,
                command.timeout_s,
                dialogue,
                password,
                hear,
                command.open_input,
            ).run()

    def put(self, source: BinaryIO, size_b: int, digest: str, path: str, mode: int = 0o644) -> None:
        timeout_s = PUT_TIMEOUT_S
        if size_b > upload.ALWAYS_SEND_MAX_B:
            found = self.run(upload.check(digest, path))
            if upload.is_there(found):
                return
        done = self._execute(upload.send(digest, path, mode, timeout_s), source)
        upload.raise_for(done, self._label, path)

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        import paramiko

        try:
            channel = self._connected().open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except (paramiko.SSHException, EOFError) as e:
            raise ConnectionRefusedError(f"{address}:{port} as seen from {self._label}: {e}") from e
        channel.settimeout(timeout_s)
        return cast("socket.socket", channel)

    def forward_unix(self, remote_path: str) -> Path:
        """Makes a Unix socket of the host reachable here, until `close`; returns the local socket's path."""
        forward = Forward(lambda: open_unix(self._connected(), remote_path, self._timeout_s()))
        self._forwards.append(forward)
        return forward.path

    def close(self) -> None:
        for forward in self._forwards:
            forward.close()
        self._forwards.clear()
        with self._lock:
            self._closed = True
            if self._transport is not None:
                self._transport.close()
                self._transport = None

    @contextlib.contextmanager
    def _channel(self, timeout_s: float) -> Iterator[paramiko.Channel]:

        if not self._channels.acquire(timeout=timeout_s):
            raise TransportError(
                f"{self._label}: all {self._ssh.sessions_max} sessions were busy for {timeout_s:g} s"
            )
        try:
            channel = self._open_session(timeout_s)
            try:
                yield channel
            finally:
                channel.close()
        finally:
            self._channels.release()

    def _open_session(self, timeout_s: float) -> paramiko.Channel:
        import paramiko
        import stamina

        try:
            # The server counts a session until it has seen our end of it: one just closed may still be in the way.
            for attempt in stamina.retry_context(
                on=paramiko.ChannelException,
                attempts=SESSION_ATTEMPTS_MAX,
                timeout=timeout_s,
                wait_initial=0.05,
                wait_max=1.0,
            ):
                with attempt:
                    return self._connected().open_session(timeout=min(timeout_s, self._timeout_s()))
            raise AssertionError("stamina raises the last error itself")
        except (paramiko.SSHException, EOFError) as e:
            raise TransportError(
                f"{self._label}: no session could be opened: {e}",
                hint="lower ssh.sessions_max if the server's MaxSessions is smaller",
            ) from e

    def _connected(self) -> paramiko.Transport:
        with self._lock:
            if self._closed:
                raise TransportError(f"{self._label}: the transport was closed")
            if self._transport is None or not self._transport.is_active():
                chain = self._chain()
                through = None
                for end in range(1, len(chain)):
                    through = self._settings.jumps.get(chain[:end], _connector(self, chain[end - 1], through))
                self._transport = self._connect(chain[-1], through)
            return self._transport

    def _connect(self, hop: Hop, through: paramiko.Transport | None) -> paramiko.Transport:
        return connect(hop, self._trust, self._settings.ask, self._settings.startups, through)

    def _chain(self) -> tuple[Hop, ...]:
        """The hops on the way, the host itself last: the Host document first, then ssh_config."""
        ssh = self._ssh
        path = Path(ssh.config_file) if ssh.config_file else DEFAULT_CONFIG.expanduser()
        own = config.lookup(path, ssh.address, user=ssh.user)
        jumps = ssh.jump if ssh.jump is not None else own.proxy_jump
        hops = []
        for text in jumps:
            user, name, port = parse_jump(text)
            said = config.lookup(path, name, user=user)
            if said.proxy_jump and ssh.jump is None:
                raise TransportError(
                    f"{self._label}: jump host {name} has a ProxyJump of its own",
                    hint="write the whole chain, in order, into ssh.jump",
                )
            hops.append(self._hop(f"{self._label} via {name}", said, user, port))
        hops.append(self._hop(self._label, own, ssh.user, ssh.port))
        return tuple(hops)

    def _hop(self, label: str, said: config.HostConfig, user: str | None, port: int | None) -> Hop:
        explicit = self._ssh.identity_file
        files = (Path(explicit).expanduser(),) if explicit else said.identity_files
        return Hop(
            label=label,
            name=said.host_key_alias or said.hostname,
            address=said.hostname,
            port=port or said.port or known_hosts.DEFAULT_PORT,
            user=user or said.user or getpass.getuser(),
            identities=Identities(
                files=files,
                only_files=bool(explicit) or said.identities_only,
                agent=said.identity_agent,
                pubkey_algorithms=self._ssh.pubkey_algorithms,
            ),
            timeout_s=self._timeout_s(),
        )

    def _timeout_s(self) -> float:
        return self._ssh.connect_timeout / 1000

    def _trust(self, hop: Hop) -> Trust:
        del hop
        given = self._ssh.known_hosts
        paths = (Path(given).expanduser(),) if given else tuple(p.expanduser() for p in DEFAULT_KNOWN_HOSTS)
        known = known_hosts.load(paths)
        self.warnings = known.warnings
        return Trust(known, paths[0] if self._settings.accept_new_host_keys else None)

    def _new_id(self) -> str:
        return self._settings.clock.new_id()


def _connector(
    transport: SshTransport, hop: Hop, through: paramiko.Transport | None
) -> Callable[[], paramiko.Transport]:
    return lambda: transport._connect(hop, through)


def _exec(channel: paramiko.Channel, line: str, label: str) -> None:
    import paramiko

    try:
        channel.exec_command(line)
    except (paramiko.SSHException, EOFError) as e:
        # The request was sent; only its answer is missing.
        raise OutcomeLost(f"{label}: the connection ended when the command was sent: {e}") from e

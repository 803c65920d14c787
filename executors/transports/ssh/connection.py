"""One authenticated connection to an SSH host, through its jumps, each hop within its own deadline."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from executors.transport import TransportError
from executors.transports.ssh.errors import (
    HostBusy,
    HostKeyChanged,
    HostKeyRevoked,
    HostKeyUnknown,
)
from executors.transports.ssh.keys import AskPassphrase, Identities, authenticate
from executors.transports.ssh.known_hosts import KnownHosts, Verdict, entry_name, fingerprint

if TYPE_CHECKING:
    import paramiko

# Retries happen only before authentication, when nothing of ours has run.
CONNECT_ATTEMPTS_MAX = 6
KEEPALIVE_S = 15
# sshd's MaxStartups starts dropping at 10 unauthenticated connections.
STARTUPS_MAX = 8


@dataclass(frozen=True, slots=True)
class Hop:
    """One host on the way, everything resolved. `name` is what host keys are filed under."""

    label: str
    name: str
    address: str
    port: int
    user: str
    identities: Identities
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Trust:
    """What is believed about host keys. `append_to` is where accepted new keys go; None: unknown is an error."""

    known: KnownHosts
    append_to: Path | None = None


class Startups:
    """Bounds how many connections to one address are between TCP and authentication at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, int], threading.Semaphore] = {}

    def slot(self, address: str, port: int) -> threading.Semaphore:
        with self._lock:
            return self._slots.setdefault((address, port), threading.Semaphore(STARTUPS_MAX))


def connect(
    hop: Hop,
    trust: Callable[[Hop], Trust],
    ask: AskPassphrase,
    startups: Startups,
    through: paramiko.Transport | None = None,
) -> paramiko.Transport:
    """Connects and authenticates one hop, directly or `through` an open connection.

    A server that hangs up before its banner is tried again with jitter, within the hop's timeout.
    Raises TransportError and its kinds.
    """
    import stamina

    stamina.instrumentation.set_on_retry_hooks([])  # retries are not news; the last error is
    for attempt in stamina.retry_context(
        on=HostBusy,
        attempts=CONNECT_ATTEMPTS_MAX,
        timeout=hop.timeout_s,
        wait_initial=0.2,
        wait_max=2.0,
        wait_jitter=1.0,
    ):
        with attempt, startups.slot(hop.address, hop.port):
            return _connect_once(hop, trust(hop), ask, through)
    raise AssertionError("stamina raises the last error itself")


def _connect_once(
    hop: Hop, trust: Trust, ask: AskPassphrase, through: paramiko.Transport | None
) -> paramiko.Transport:
    import paramiko

    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its tracebacks are not our diagnostics
    sock = _open(hop, through)
    disabled = {}
    if hop.identities.pubkey_algorithms is not None:
        offered: tuple[str, ...] = getattr(paramiko.Transport, "_preferred_pubkeys", ())
        rest = [a for a in offered if a not in hop.identities.pubkey_algorithms]
        disabled["pubkeys"] = rest
    try:
        transport = paramiko.Transport(cast("socket.socket", sock), disabled_algorithms=disabled)
    except (OSError, EOFError, paramiko.SSHException) as e:
        sock.close()
        raise HostBusy(f"{hop.label}: closed the connection at once: {e}") from e
    try:
        transport.banner_timeout = transport.handshake_timeout = hop.timeout_s
        transport.auth_timeout = hop.timeout_s
        _prefer_known_types(transport, trust.known, hop)
        _handshake(transport, hop)
        _check_host_key(transport, hop, trust)
        authenticate(transport, hop.user, hop.identities, ask, hop.label)
        transport.set_keepalive(KEEPALIVE_S)
    except (OSError, EOFError, paramiko.SSHException) as e:
        transport.close()
        raise TransportError(
            f"{hop.label}: the connection ended while logging in: {str(e) or type(e).__name__}"
        ) from e
    except BaseException:
        transport.close()
        raise
    return transport


def _open(hop: Hop, through: paramiko.Transport | None) -> socket.socket | paramiko.Channel:
    import paramiko

    if through is not None:
        try:
            return through.open_channel(
                "direct-tcpip", (hop.address, hop.port), ("127.0.0.1", 0), timeout=hop.timeout_s
            )
        except (paramiko.SSHException, EOFError) as e:
            raise TransportError(
                f"{hop.label}: the jump host cannot reach {hop.address}:{hop.port}: {e}"
            ) from e
    try:
        sock = socket.create_connection((hop.address, hop.port), timeout=hop.timeout_s)
    except TimeoutError as e:
        raise TransportError(
            f"{hop.label}: {hop.address}:{hop.port} did not answer within {hop.timeout_s:g} s"
        ) from e
    except OSError as e:
        raise TransportError(f"{hop.label}: {hop.address}:{hop.port}: {e.strerror or e}") from e
    # paramiko leaves Nagle's algorithm on, which costs 40 ms for each small packet.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _handshake(transport: paramiko.Transport, hop: Hop) -> None:
    import paramiko

    try:
        transport.start_client(timeout=hop.timeout_s)
    except paramiko.SSHException as e:
        if "banner" in str(e) or isinstance(e.__cause__, (EOFError, ConnectionError)):
            raise HostBusy(f"{hop.label}: hung up before its banner (busy, or not an SSH server): {e}") from e
        raise TransportError(f"{hop.label}: no agreement with the SSH server: {e}") from e
    except (EOFError, ConnectionError) as e:
        raise HostBusy(f"{hop.label}: hung up during the handshake") from e
    if not transport.initial_kex_done:
        raise TransportError(f"{hop.label}: the SSH handshake did not finish within {hop.timeout_s:g} s")


def _prefer_known_types(transport: paramiko.Transport, known: KnownHosts, hop: Hop) -> None:
    """Asks for a key type that known_hosts has, so that a second key of the host is not taken for a change."""
    options = transport.get_security_options()
    wanted: list[str] = []
    for key_type in known.key_types(hop.name, hop.port):
        wanted += ["rsa-sha2-512", "rsa-sha2-256"] if key_type == "ssh-rsa" else [key_type]
    offered: Sequence[str] = options.key_types
    first = [t for t in wanted if t in offered]
    options.key_types = tuple(first + [t for t in offered if t not in first])


def _check_host_key(transport: paramiko.Transport, hop: Hop, trust: Trust) -> None:
    key = transport.get_remote_server_key()
    blob, key_type = key.asbytes(), key.get_name()
    verdict, places = trust.known.check(hop.name, hop.port, key_type, blob)
    shown = fingerprint(blob)
    if verdict is Verdict.KNOWN:
        return
    if verdict is Verdict.REVOKED:
        raise HostKeyRevoked(
            f"{hop.label}: its key {key_type} {shown} is revoked ({', '.join(places)})",
            hint="do not connect; find out why the key was revoked",
        )
    if verdict is Verdict.CHANGED:
        raise HostKeyChanged(
            f"{hop.label}: its host key is not the known one: it shows {key_type} {shown}, known are {', '.join(places)}",
            hint="somebody may be in between, or the host was reinstalled: compare the fingerprint on the host's console, "
            "then replace those lines",
        )
    line = f"{entry_name(hop.name, hop.port)} {key_type} {key.get_base64()}"
    if trust.append_to is None:
        raise HostKeyUnknown(
            f"{hop.label}: its host key is not known: {key_type} {shown}",
            hint=f"compare the fingerprint on the host's console, then add this line to known_hosts:\n{line}",
        )
    trust.append_to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with trust.append_to.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def parse_jump(text: str) -> tuple[str | None, str, int | None]:
    """`[user@]host[:port]`, `[user@][v6]:port` or ssh://… -> (user, host, port); raises TransportError."""
    rest = text.removeprefix("ssh://").rstrip("/")
    user, at, place = rest.rpartition("@")
    host, port = place, ""
    if place.startswith("["):
        host, _, tail = place[1:].partition("]")
        port = tail.removeprefix(":")
    elif place.count(":") == 1:
        host, _, port = place.partition(":")
    if not host or (port and not port.isdecimal()) or (at and not user):
        raise TransportError(
            f"{text!r} is not a jump host", hint="write [user@]host[:port], IPv6 in brackets"
        )
    return user or None, host, int(port) if port else None

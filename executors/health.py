"""Probes of a node: http, tcp, command, each once and within its timeout, through the host's transport.

Thresholds and deadlines over several probes are the engine's. Without any probe a node is judged by running
without a restart for `min_ready`, and the answer says NONE.
"""

from __future__ import annotations

import http.client
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass

from executors.driver import ProbeResult, ProbeTarget
from executors.transport import OutcomeLost, Transport, TransportError
from manifests.schema.fleet import HttpProbe
from planner.observed import HealthState
from planner.spec import NodeSpec

# As much of a body as a person wants to read in a line.
_BODY_MAX_B = 4096
_SHOWN = 120
_LOOPBACK = "127.0.0.1"

Check = Callable[[tuple[str, ...], float], ProbeResult]
"""Runs a probe's command where the node lives: arguments and timeout in seconds -> answer."""


def probe(transport: Transport, target: ProbeTarget, check: Check) -> ProbeResult:
    """Asks a node once. A host that cannot be reached gives UNKNOWN, a node that does not answer FAILING."""
    health = target.spec.health
    timeout_s = health.timeout / 1000
    try:
        if health.http is not None:
            return _http(transport, target.spec, health.http, timeout_s)
        if health.tcp is not None:
            with connected(transport, target.spec, health.tcp.port, timeout_s):
                return ProbeResult(HealthState.PASSING, "accepts connections")
        if health.command is not None:
            return check(health.command.command, timeout_s)
    except TransportError as e:
        return ProbeResult(HealthState.UNKNOWN, f"the host did not answer: {e.message}")
    except OutcomeLost:
        return ProbeResult(HealthState.FAILING, f"no answer within {timeout_s:g} s")
    except TimeoutError:
        return ProbeResult(HealthState.FAILING, f"no answer within {timeout_s:g} s")
    except (OSError, http.client.HTTPException) as e:
        return ProbeResult(HealthState.FAILING, said(e))
    return ProbeResult(HealthState.NONE, "no probe is declared")


def described(spec: NodeSpec) -> str:
    """Which probe judges a node, in words: `GET /health on port 18080`."""
    health = spec.health
    if health.http is not None:
        path = health.http.path if health.http.path.startswith("/") else f"/{health.http.path}"
        return f"GET {path} on port {health.http.port or spec.port}"
    if health.tcp is not None:
        return f"a connection to port {health.tcp.port or spec.port}"
    if health.command is not None:
        return f"the command {shlex.join(health.command.command)}"
    if health.container is not None:
        return "the image's own health check"
    return "running, without a probe"


def _http(transport: Transport, spec: NodeSpec, wanted: HttpProbe, timeout_s: float) -> ProbeResult:
    with connected(transport, spec, wanted.port, timeout_s) as stream:
        answer = exchange(stream, spec.address, "GET", wanted.path, timeout_s)
    good = answer.status == wanted.status if wanted.status is not None else 200 <= answer.status < 300
    if good:
        return ProbeResult(HealthState.PASSING, answer.line)
    return ProbeResult(HealthState.FAILING, answer.whole)


@dataclass(frozen=True, slots=True)
class Answer:
    """A node's answer: its status, the same as a line for people, and its body's beginning in one line."""

    status: int
    line: str
    body: str

    @property
    def whole(self) -> str:
        """The line, with what the body says."""
        return f"{self.line}: {self.body}" if self.body else self.line


def exchange(stream: socket.socket, address: str, method: str, path: str, timeout_s: float) -> Answer:
    """One request over a connection; raises OSError and HTTPException."""
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    connection.sock = stream
    path = path if path.startswith("/") else f"/{path}"
    connection.request(method, path, headers={"Connection": "close", "User-Agent": "fleetctl"})
    response = connection.getresponse()
    body = response.read(_BODY_MAX_B)
    shown = " ".join(body.decode(errors="replace").split())[:_SHOWN]
    return Answer(response.status, f"{response.status} {response.reason} from {path}", shown)


def connected(transport: Transport, spec: NodeSpec, port: int | None, timeout_s: float) -> socket.socket:
    """A connection to the node's port as its host sees it; a private listener is found on the loopback."""
    number = port or spec.port
    if number is None:
        raise OSError("the node has no port to probe")
    try:
        stream = transport.connect(spec.address, number, timeout_s)
    except ConnectionRefusedError:
        if spec.address.startswith("127.") or spec.address in ("localhost", "::1"):
            raise
        stream = transport.connect(_LOOPBACK, number, timeout_s)
    stream.settimeout(timeout_s)
    return stream


def said(error: Exception) -> str:
    """An error of a connection in a few words."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

"""Probes ask a real listener once, within their timeout, and say in words what came."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executors.driver import ProbeResult, ProbeTarget
from executors.health import probe
from executors.transport import TransportError
from executors.transports.local import LocalTransport
from manifests.schema.fleet import CommandProbe, Health, HttpProbe, TcpProbe
from planner.observed import HealthState
from tests.executors.places import HostPlace, free_port


@contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """A listener that gives every client these bytes; None: accepts and stays silent."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            held.append(client)
            if answer is not None:
                client.recv(4096)
                client.sendall(answer)
                client.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)
        for client in held:
            client.close()


def ask(health: Health, port: int | None, address: str = "127.0.0.1") -> ProbeResult:
    spec = HostPlace(Path("/nowhere")).spec("a", health=health, port=port, address=address)
    return probe(
        LocalTransport(), ProbeTarget("a", spec), lambda argv, _: ProbeResult(HealthState.PASSING, argv[0])
    )


def http(status: int | None = None, timeout: int = 2_000) -> Health:
    return Health(http=HttpProbe(path="/health", status=status)).model_copy(update={"timeout": timeout})


@pytest.mark.parametrize(
    ("status", "answer", "state", "said"),
    [
        (None, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "passing", "200 OK"),
        (None, b"HTTP/1.1 204 No Content\r\n\r\n", "passing", "204"),
        (
            None,
            b"HTTP/1.1 503 Busy\r\nContent-Length: 8\r\n\r\ndraining",
            "failing",
            "503 Busy from /health: draining",
        ),
        (None, b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", "failing", "302"),
        (503, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "passing", "503"),
        (201, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "failing", "200"),
        (None, b"SSH-2.0-OpenSSH\r\n", "failing", "BadStatusLine"),
        (None, b"", "failing", "connection reset"),
    ],
)
def test_http_judges_the_status(status: int | None, answer: bytes, state: str, said: str) -> None:
    with answering(answer) as port:
        result = ask(http(status), port)
    assert result.state == state
    assert said in result.detail


def test_an_endless_body_does_not_hold_the_probe() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000) as port:
        assert ask(http(), port).state is HealthState.PASSING


def test_silence_is_a_failure_within_the_timeout() -> None:
    with answering(None) as port:
        result = ask(http(timeout=200), port)
    assert (result.state, result.detail) == (HealthState.FAILING, "no answer within 0.2 s")


def test_a_closed_port_is_refused() -> None:
    assert ask(http(), free_port()) == ProbeResult(HealthState.FAILING, "connection refused")


def test_tcp_needs_a_listener_only() -> None:
    health = Health(tcp=TcpProbe())
    with answering(None) as port:
        assert ask(health, port).state is HealthState.PASSING
    assert ask(health, port).state is HealthState.FAILING


def test_a_private_listener_is_found_on_the_host_itself() -> None:
    """The node listens on the loopback only, and the host is known by another address."""
    with answering(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        assert (
            ask(http(), port, address=socket.gethostbyname(socket.gethostname())).state is HealthState.PASSING
        )


def test_a_command_goes_through_the_host_and_no_probe_says_none() -> None:
    assert ask(Health(command=CommandProbe(command=("check",))), None) == ProbeResult(
        HealthState.PASSING, "check"
    )
    assert ask(Health(), None).state is HealthState.NONE


def test_a_probe_without_a_port_fails_in_words() -> None:
    assert "no port" in ask(http(), None).detail


def test_an_unreachable_host_leaves_the_node_unknown() -> None:
    class Gone(LocalTransport):
        def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
            raise TransportError("no route")

    spec = HostPlace(Path("/nowhere")).spec("a")
    result = probe(Gone(), ProbeTarget("a", spec), lambda *_: ProbeResult(HealthState.PASSING))
    assert (result.state, "no route" in result.detail) == (HealthState.UNKNOWN, True)

"""The relay adds its delay to every round trip, and each of its faults happens."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.relay import Relay

ROOT = Path(__file__).parents[2]
SOON_S = 20.0
SILENCE_S = 0.5


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server on loopback that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                while chunk := client.recv(65_536):
                    client.sendall(chunk)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield int(server.getsockname()[1])
        # Only this wakes the thread that waits in accept().
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay without delay."""
    with Relay() as started:
        yield started


def talk(client: socket.socket, word: bytes) -> bytes:
    """Send a word and wait for as many bytes."""
    client.sendall(word)
    said = b""
    while len(said) < len(word):
        chunk = client.recv(len(word) - len(said))
        if not chunk:
            break
        said += chunk
    return said


def silent(client: socket.socket) -> bool:
    """True when nothing arrives for a while."""
    client.settimeout(SILENCE_S)
    try:
        client.recv(1)
    except TimeoutError:
        client.settimeout(SOON_S)
        return True
    return False


def test_relay_delays_each_round_trip_by_twice_its_delay(echo_port: int) -> None:
    """By its own count of time: each of three round trips takes at least 2 × 40 ms, and all bytes arrive in order."""
    import time

    with (
        Relay(delay_s=0.04) as relay,
        socket.create_connection(relay.add(("127.0.0.1", echo_port))) as client,
    ):
        client.settimeout(SOON_S)
        for _ in range(3):
            began = time.monotonic()
            assert talk(client, b"x") == b"x"
            assert time.monotonic() - began >= 0.08
        data = bytes(range(256)) * 4096
        threading.Thread(target=client.sendall, args=(data,), daemon=True).start()
        got = b""
        while len(got) < len(data):
            got += client.recv(65_536)
        assert got == data


def test_relay_swallows_holds_and_heals(echo_port: int, relay: Relay) -> None:
    with socket.create_connection(relay.add(("127.0.0.1", echo_port))) as client:
        assert talk(client, b"a") == b"a"
        relay.hold()
        client.sendall(b"held")
        assert silent(client)
        relay.heal()
        assert talk(client, b"") == b"" and client.recv(4) == b"held"
        relay.blackhole()
        client.sendall(b"lost")
        assert silent(client)
        relay.heal()
        assert talk(client, b"b") == b"b"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_relay_cuts_now_or_after_some_bytes_and_refuses(echo_port: int, relay: Relay) -> None:
    place = relay.add(("127.0.0.1", echo_port))
    with socket.create_connection(place, timeout=SOON_S) as client:
        assert talk(client, b"a") == b"a"
        relay.cut_after(3)
        assert talk(client, b"bc") == b"bc"
        client.sendall(b"def")
        assert client.recv(3) == b"d"
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with socket.create_connection(place, timeout=SOON_S) as client:
        assert talk(client, b"a") == b"a"
        relay.refuse()
        # The reset may come before or after the connection is reported as made.
        with pytest.raises(ConnectionResetError), socket.create_connection(place, timeout=SOON_S) as stranger:
            stranger.recv(1)
        assert talk(client, b"b") == b"b"
        relay.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_relay_runs_as_a_program_of_its_own(echo_port: int) -> None:
    pair = f"127.0.0.1:0=127.0.0.1:{echo_port}"
    argv = [sys.executable, "-m", "tests.lab.relay", "--delay-ms", "1", pair]
    program = subprocess.Popen(argv, cwd=ROOT, stdin=-1, stdout=-1, text=True)
    try:
        assert program.stdout is not None
        place, state = program.stdout.readline().split()[0], program.stdout.readline()
        assert state == "ready\n"
        with socket.create_connection(("127.0.0.1", int(place.rpartition(":")[2])), timeout=SOON_S) as client:
            assert talk(client, b"x") == b"x"
    finally:
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=SOON_S)

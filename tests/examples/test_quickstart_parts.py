"""The parts of the quickstart, each by itself: the pinned bytes, the server, the client that watches."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples.quickstart import SOURCE, free_ports

VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
WATCH = SOURCE / "watch.py"


@contextmanager
def hello(version: str, port: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(SOURCE / "artifacts" / f"hello-{version}.py"), "--port", str(port)],
        env={"GREETING": "good day"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"hello {version} listens on port {port}\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def get(port: int, path: str) -> tuple[int, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.load(response)
    finally:
        connection.close()


def wait_until_refused(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError(f"port {port} still accepts connections")


def report(log: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WATCH), "report", str(log)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_digest_pins_the_bytes_of_the_artifact(version: str) -> None:
    """To renew a pin after an intended change: sha256sum examples/quickstart/artifacts/*."""
    releases = (SOURCE / "releases.yaml").read_text(encoding="utf-8")
    pins = dict(re.findall(r'source: \./artifacts/(\S+)\n +digest: "sha256:([0-9a-f]{64})"', releases))
    name = f"hello-{version}.py"
    assert pins[name] == hashlib.sha256((SOURCE / "artifacts" / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("version", VERSIONS)
def test_server_answers_health_version_and_a_greeting(version: str) -> None:
    port = free_ports(1)
    key = "message" if version == "2.0.0" else "greeting"
    with hello(version, port):
        assert get(port, "/health") == (200, {"status": "ok"})
        assert get(port, "/version") == (200, {"product": "hello", "version": version})
        assert get(port, "/") == (200, {key: "good day, world"})
        assert get(port, "/elsewhere") == (404, {"error": "not found"})


@pytest.mark.parametrize("version", VERSIONS)
def test_server_finishes_the_request_under_way_and_exits_zero(version: str) -> None:
    """After SIGTERM no new connection is served, the open one gets its whole answer, and the exit is clean."""
    port = free_ports(1)
    with hello(version, port) as process, socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"GET /version HTTP/1.0\r\n")
        # A second request is answered only after the first was accepted, so the first is under way.
        assert get(port, "/health")[0] == 200
        process.send_signal(signal.SIGTERM)
        wait_until_refused(port)
        client.sendall(b"\r\n")
        received = b""
        while chunk := client.recv(65536):
            received += chunk
        assert received.startswith(b"HTTP/1.0 200 ")
        assert json.loads(received.partition(b"\r\n\r\n")[2])["version"] == version
        assert process.wait(timeout=10) == 0
        assert process.stdout is not None
        assert process.stdout.read() == "drained\n"


def test_report_passes_while_never_more_than_one_node_was_down(tmp_path: Path) -> None:
    log = tmp_path / "watch.log"
    log.write_text("0.000 1.0.0 1.0.0\n0.040 down 1.0.0\n0.080 1.1.0 1.0.0\n0.120 1.1.0 down\n")
    result = report(log)
    assert result.returncode == 0
    assert (
        "asked 4 times: all nodes answered 2 times, one was down 2 times, more than one 0 times"
        in result.stdout
    )


@pytest.mark.parametrize("text", ["0.000 1.0.0 1.0.0\n0.040 down down\n0.080 1.1.0 1.1.0\n", ""])
def test_report_fails_when_two_nodes_were_down_at_once_or_nobody_asked(tmp_path: Path, text: str) -> None:
    """The demo's claim has teeth: a client's log that shows the contrary fails it."""
    log = tmp_path / "watch.log"
    log.write_text(text)
    assert report(log).returncode == 1


def test_client_sees_a_node_go_and_come_back(tmp_path: Path) -> None:
    port = free_ports(1)
    log = tmp_path / "watch.log"
    url = f"http://127.0.0.1:{port}"

    def logged() -> list[str]:
        return [line.split()[1] for line in log.read_text().splitlines()] if log.exists() else []

    def until(answer: str) -> None:
        deadline = time.monotonic() + 20
        while answer not in logged():
            assert time.monotonic() < deadline, f"the client never logged {answer}"
            time.sleep(0.05)

    client = subprocess.Popen([sys.executable, str(WATCH), "ask", str(log), url])
    try:
        with hello("1.0.0", port):
            until("1.0.0")
        until("down")
        with hello("1.1.0", port):
            until("1.1.0")
            client.send_signal(signal.SIGTERM)
            assert client.wait(timeout=10) == 0
            gone = [sys.executable, str(WATCH), "gone", url]
            assert subprocess.run(gone, check=False).returncode == 1
        assert subprocess.run(gone, check=False).returncode == 0
    finally:
        client.kill()
        client.wait()

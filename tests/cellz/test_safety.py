"""Limits counted in bytes, API keys, CORS, and SQLite in trouble: one request or one cell, never the node."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cellz.running import NodeProcess, append, append_many, cells, read_log, running

MAX_BODY = 100_000
MAX_EVENT = 50_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("safety")
    with running(folder, max_body=MAX_BODY, max_event=MAX_EVENT, body_timeout=3) as started:
        yield started


@pytest.fixture
def client(node: NodeProcess) -> Iterator[httpx.Client]:
    with node.client() as opened:
        yield opened


def raw(node: NodeProcess, data: bytes) -> bytes:
    """Send bytes as they are and return everything until the node closes."""
    host, port = node.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as opened:
        opened.settimeout(60)
        opened.sendall(data)
        received = b""
        while part := opened.recv(65536):
            received += part
        return received


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join(
        [f"POST {cells(path)} HTTP/1.1", "host: x", "content-type: application/json", *lines, "", ""]
    ).encode()


def test_a_declared_body_over_the_limit_is_413_before_it_is_sent(node: NodeProcess) -> None:
    answer = raw(node, head("c/events", f"content-length: {MAX_BODY + 1}"))
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_chunked_body_is_counted_as_it_arrives(node: NodeProcess) -> None:
    chunk = b"%x\r\n%s\r\n" % (10_000, b" " * 10_000)
    answer = raw(node, head("c/events", "transfer-encoding: chunked") + chunk * (MAX_BODY // 10_000 + 1))
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_trickles_is_408(node: NodeProcess) -> None:
    answer = raw(node, head("c/events", "content-length: 100") + b'{"event_type"')
    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("length", ["-1", "1x", "1, 2"])
def test_a_senseless_length_is_400(node: NodeProcess, length: str) -> None:
    assert raw(node, head("c/events", f"content-length: {length}", "connection: close")).startswith(
        b"HTTP/1.1 400"
    )


def test_one_payload_over_its_limit_is_413_and_nothing_of_its_batch_is_kept(client: httpx.Client) -> None:
    big = {"event_type": "a", "payload": "x" * MAX_EVENT}
    assert client.post(cells("big/events"), json=big).status_code == 413
    batch = {"events": [{"event_type": "a", "payload": 1}, big]}
    assert client.post(cells("big/events/batch"), json=batch).status_code == 413
    assert read_log(client, "big") == []


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_00,
        b'{"event_type":"a","payload":' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"event_type":"a","payload":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
        b'{"event_type":"a","payload":1e400}',
        b'{"event_type":"a","payload":NaN}',
        b'{"event_type":"a","payload":"\xff"}',
        b'{"event_type":"a","payload":"\\ud800"}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_malformed_deep_or_unbounded_json_is_400(client: httpx.Client, body: bytes) -> None:
    answer = client.post(cells("json/events"), content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text


def test_many_shallow_brackets_are_no_depth(client: httpx.Client) -> None:
    payload = [[], {}] * 300
    assert append(client, "wide", payload=payload)[0]["payload"] == payload


@pytest.mark.parametrize(
    "cell", ["..", ".x", "a%2Fb", "a%00b", "x" * 129, "a.db", "a.lease", "%C3%A9", "a%20"]
)
def test_an_id_outside_the_pattern_is_refused_and_becomes_no_file(node: NodeProcess, cell: str) -> None:
    answer = raw(node, f"GET {cells(cell)} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert answer.split()[1] in (b"400", b"404"), answer
    names = {path.name for path in (node.folder / node.name).iterdir()}
    assert all(not name.startswith("..") and len(name) < 140 for name in names)


def test_no_cors_header_unless_configured(client: httpx.Client) -> None:
    answer = client.get(cells("c"), headers={"origin": "http://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert client.options(cells("c"), headers={"origin": "http://evil.example"}).status_code == 405


def test_cors_for_configured_origins_only(tmp_path: Path) -> None:
    with running(tmp_path, cors_origins="http://good.example") as node, node.client() as client:
        good = client.get(cells("c"), headers={"origin": "http://good.example"})
        assert good.headers["access-control-allow-origin"] == "http://good.example"
        assert (
            "access-control-allow-origin"
            not in client.get(cells("c"), headers={"origin": "http://evil.example"}).headers
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    keys = ",".join(
        f"{role}:{hashlib.sha256(key.encode()).hexdigest()}"
        for role, key in (("writer", "w-key"), ("reader", "r-key"), ("reader", "s-key"))
    )
    with running(tmp_path_factory.mktemp("guarded"), api_keys=keys) as started:
        yield started


BAD_KEYS: list[list[tuple[str, bytes]]] = [
    [],
    [("authorization", b"Bearer")],
    [("authorization", b"Bearer wrong")],
    [("authorization", b"Basic w-key")],
    [("authorization", b"Bearer \xe9")],
    [("authorization", "Bearer “w-key”".encode())],
    [("authorization", b"Bearer w-key x")],
    [("authorization", b"Bearer " + b"x" * 10_000)],
    [("authorization", b"Bearer w-key"), ("authorization", b"Bearer w-key")],
    [("authorization", b"Bearer w-key"), ("x-api-key", b"w-key")],
]


@pytest.mark.parametrize("headers", BAD_KEYS)
def test_whatever_is_wrong_with_a_key_is_the_same_401(
    guarded: NodeProcess, headers: list[tuple[str, bytes]]
) -> None:
    with guarded.client() as client:
        for path in (cells(), cells("c"), cells("c/stream"), "/state", "/metrics"):
            answer = client.get(path, headers=headers)
            assert (answer.status_code, answer.json()) == (
                401,
                {"error": "an API key is needed", "code": "cellz.unauthorized"},
            )
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code == 200


def test_a_readers_key_reads_and_neither_writes_nor_creates(guarded: NodeProcess) -> None:
    writer, reader = {"authorization": "Bearer w-key"}, {"x-api-key": "s-key"}
    with guarded.client() as client:
        assert (
            client.post(cells("a/events"), json={"event_type": "a", "payload": 1}, headers=writer).status_code
            == 201
        )
        assert client.get(cells("a/events"), headers=reader).status_code == 200
        assert (
            client.post(cells("a/events"), json={"event_type": "a", "payload": 1}, headers=reader).status_code
            == 403
        )
        assert client.post("/drain", headers=reader).status_code == 403
        assert client.get(cells("unknown"), headers=reader).status_code == 404
        assert [each["id"] for each in client.get(cells(), headers=reader).json()["cells"]] == ["a"]


def test_a_damaged_database_quarantines_its_cell_alone(tmp_path: Path) -> None:
    """503 for that cell, the others go on; evict sets the file aside, and the newest snapshot serves."""
    with running(tmp_path, sync="evict") as node, node.client() as client:
        append_many(client, "bad", 400)
        append(client, "good", 3)
        assert client.post(cells("bad/evict")).status_code == 200
        path = tmp_path / "node" / "bad.db"
        size = path.stat().st_size
        with path.open("r+b") as file:
            for offset in range(0, size, 2048):
                file.seek(offset + (100 if offset == 0 else 0))
                file.write(os.urandom(1900))
        for _ in range(2):
            answer = client.get(cells("bad/events?limit=-1"))
            assert answer.status_code == 503, answer.text
            assert answer.json()["code"] == "cellz.quarantined"
        assert client.get("/state").json()["quarantined"] == ["bad"]
        append(client, "good", 1)
        assert client.post(cells("bad/evict")).status_code == 200
        assert len(read_log(client, "bad")) == 400
        assert client.get("/state").json()["quarantined"] == []
        assert (tmp_path / "node" / "bad.db.damaged-0").exists()


def test_a_database_locked_by_another_process_is_503_and_passes(tmp_path: Path) -> None:
    with running(tmp_path, sync="evict") as node, node.client() as client:
        append(client, "c", 1)
        with sqlite3.connect(tmp_path / "node" / "c.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = client.post(cells("c/events"), json={"event_type": "a", "payload": 1})
            assert answer.status_code == 503, answer.text
            assert "locked" in answer.json()["error"]
            append(client, "d", 1)
            other.execute("ROLLBACK")
        assert append(client, "c", 1)[0]["sequence"] == 2


def _small_disk(folder: Path) -> str | None:
    """Mount a small tmpfs at `folder`; return why that cannot be done here, or None."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "a full disk needs root and mount(8)"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    return None if done.returncode == 0 else f"cannot mount a tmpfs: {done.stderr.decode().strip()}"


def test_a_full_disk_is_503_and_passes_when_there_is_room(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    if (reason := _small_disk(folder)) is not None:
        pytest.skip(reason)
    try:
        with running(tmp_path, sync="evict", data_dir=folder) as node, node.client() as client:
            append(client, "c", 1)
            (folder / "filler").write_bytes(b"x" * 2_000_000)
            statuses = set()
            for _ in range(40):
                body = {"event_type": "a", "payload": "x" * 40_000}
                answer = client.post(cells("c/events"), json=body)
                statuses.add(answer.status_code)
                if answer.status_code != 201:
                    assert answer.status_code == 503, answer.text
                    assert "full" in answer.json()["error"], answer.text
            assert 503 in statuses
            assert client.get("/health").status_code == 200
            (folder / "filler").unlink()
            written = append(client, "c", 1)[0]["sequence"]
            assert [event["sequence"] for event in read_log(client, "c")] == list(range(1, written + 1))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_logs_hold_no_payload(tmp_path: Path) -> None:
    with running(tmp_path, log_level="debug") as node, node.client() as client:
        append(client, "c", payload={"secret": "hunter2"})
        client.post(
            cells("c/events"), content=b'{"payload":"hunter2"', headers={"content-type": "application/json"}
        )
        client.post(cells("c/kv"), json={"key": "k", "value": "hunter2"})
        assert node.terminate() == 0
    assert b"hunter2" not in node.log_path.read_bytes()

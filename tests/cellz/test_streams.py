"""Streams lose nothing and repeat nothing: replay in pages, hand-over to live, slow readers, restores."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.cellz.running import NodeProcess, Sse, append, append_many, cells, read_log, running


@pytest.fixture(scope="module", params=["interval:1s", "commit"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running(tmp_path_factory.mktemp("streams"), sync=request.param, sse_keepalive=0.2) as started:
        yield started


@pytest.fixture
def client(node: NodeProcess) -> Iterator[httpx.Client]:
    with node.client() as opened:
        yield opened


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> str:
    return f"cell-{abs(hash(request.node.nodeid)):x}"


def test_replay_goes_far_beyond_one_page(client: httpx.Client, cell: str) -> None:
    """The original stops after 500."""
    append_many(client, cell, 2300)
    stream = Sse(client, cells(f"{cell}/stream?since=0"))
    assert [int(each[0]) for each in stream.take(2300)] == list(range(1, 2301))
    stream.close()


def test_replay_hands_over_to_live_without_gap_or_duplicate(
    node: NodeProcess, client: httpx.Client, cell: str
) -> None:
    """Readers come while a writer goes on; each sees every sequence once."""
    append_many(client, cell, 600)
    total = 1800
    seen: dict[int, list[int]] = {}

    def read(since: int) -> None:
        with node.client() as own:
            stream = Sse(own, cells(f"{cell}/stream?since={since}"))
            seen[since] = [int(each[0]) for each in stream.take(total - since)]
            stream.close()

    readers = [threading.Thread(target=read, args=(since,)) for since in (0, 1, 499, 500, 501, 599, 600)]
    for reader in readers:
        reader.start()
    for _ in range(12):
        append_many(client, cell, 100)
    for reader in readers:
        reader.join()
    for since, got in seen.items():
        assert got == list(range(since + 1, total + 1))


def test_a_slow_reader_is_caught_up_from_the_log(node: NodeProcess, client: httpx.Client, cell: str) -> None:
    """It reads nothing while megabytes go by, far more than any buffer between; then it gets them all."""
    append(client, cell)
    host, port = node.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(f"GET {cells(cell)}/stream?since=0 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        payload = {"filler": "x" * 8000}
        count = 3000
        for _ in range(count // 100):
            batch = [{"event_type": "note", "payload": payload}] * 100
            assert client.post(cells(f"{cell}/events/batch"), json={"events": batch}).status_code == 201
        slow.settimeout(60)
        received = bytearray()
        last = f"id: {count + 1}\n".encode()
        while last not in received[-100_000:]:
            part = slow.recv(1 << 16)
            assert part
            received += part
    ids = [int(line[4:]) for line in received.splitlines() if line.startswith(b"id: ")]
    assert ids == list(range(1, count + 2))


def test_without_since_a_stream_is_live_only(client: httpx.Client, node: NodeProcess, cell: str) -> None:
    append(client, cell, 3)
    with node.client() as own:
        stream = Sse(own, cells(f"{cell}/stream"))
        append(client, cell, 1)
        assert [each[0] for each in stream.take(1)] == ["4"]
        stream.close()


def test_a_live_reader_is_told_of_a_restore(client: httpx.Client, node: NodeProcess, cell: str) -> None:
    """The original does not broadcast `rewound`."""
    append(client, cell, 2)
    checkpoint = client.post(cells(f"{cell}/checkpoints"), json={}).json()["checkpoint"]["id"]
    append(client, cell, 3)
    with node.client() as own:
        stream = Sse(own, cells(f"{cell}/stream?since=0"))
        assert [each[0] for each in stream.take(5)] == ["1", "2", "3", "4", "5"]
        client.post(cells(f"{cell}/restore"), json={"checkpoint_id": checkpoint})
        append(client, cell, 1)
        after = stream.take(2)
        assert [(each[0], each[1]) for each in after] == [("3", "rewound"), ("4", "note")]
        assert after[0][2]["payload"] == {"checkpoint_id": checkpoint, "target_sequence": 2, "branch": 1}
        stream.close()


def test_readers_across_many_restores_always_see_the_log_that_is(
    client: httpx.Client, node: NodeProcess, cell: str
) -> None:
    """A reader that applies what it is told (cut at `rewound` and `reset`) ends with exactly the log."""
    append(client, cell, 5)
    checkpoint = client.post(cells(f"{cell}/checkpoints"), json={}).json()["checkpoint"]["id"]
    views: list[dict[int, str]] = [{} for _ in range(3)]

    def read(view: dict[int, str]) -> None:
        with node.client() as own:
            stream = Sse(own, cells(f"{cell}/stream?since=0&branch=0"))
            for _, kind, data in stream:
                if kind in ("rewound", "reset"):
                    cut = data["payload"]["target_sequence"] if kind == "rewound" else data["resume_from"]
                    for sequence in [each for each in view if each > cut]:
                        del view[sequence]
                if kind != "reset":
                    view[data["sequence"]] = data["id"]
                if kind == "end":
                    break
            stream.close()

    threads = [threading.Thread(target=read, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for number in range(12):
        append_many(client, cell, 40 + number)
        client.post(cells(f"{cell}/restore"), json={"checkpoint_id": checkpoint})
    append(client, cell, 1, event_type="end")
    for thread in threads:
        thread.join(60)
    log = {event["sequence"]: event["id"] for event in read_log(client, cell)}
    assert views == [log] * 3


def test_keep_alive_comments_come_while_nothing_happens(client: httpx.Client, cell: str) -> None:
    with client.stream("GET", cells(f"{cell}/stream")) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith(": keep-alive"))
        assert [next(lines) for _ in range(2)] == [": keep-alive"] * 2


def test_a_stream_ends_when_its_cell_is_evicted_and_goes_on_after(
    client: httpx.Client, node: NodeProcess, cell: str
) -> None:
    append(client, cell, 2)
    with node.client() as own:
        stream = Sse(own, cells(f"{cell}/stream?since=0"))
        assert [each[0] for each in stream.take(2)] == ["1", "2"]
        assert client.post(cells(f"{cell}/evict")).status_code == 200
        assert list(stream) == []
        stream.close()
        append(client, cell, 1)
        again = Sse(own, cells(f"{cell}/stream"), headers={"last-event-id": "2"})
        assert [each[0] for each in again.take(1)] == ["3"]
        again.close()


def test_readers_that_leave_are_forgotten(client: httpx.Client, cell: str) -> None:
    before = client.get("/state").json()["readers"]
    for _ in range(5):
        with client.stream("GET", cells(f"{cell}/stream")) as answer:
            next(answer.iter_lines())
    deadline = time.monotonic() + 60
    while client.get("/state").json()["readers"] > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _ws(node: NodeProcess, path: str) -> str:
    return node.address.replace("http://", "ws://") + cells(path)


def test_a_websocket_speaks_the_originals_frames(client: httpx.Client, node: NodeProcess, cell: str) -> None:
    """Live events only; append, ping and get_meta get no reply, and rubbish is ignored."""
    append(client, cell, 1)
    with connect(_ws(node, f"{cell}/ws?since=0")) as ws:
        for text in ("rubbish", '{"action":"ping"}', '{"action":"get_meta"}', '{"action":"no"}'):
            ws.send(text)
        ws.send(json.dumps({"action": "append_event", "turn_id": "t", "event_type": "note", "payload": 1}))
        frame = json.loads(ws.recv(60))
        assert frame["type"] == "event"
        assert set(frame) == {"type", "data"}
        assert (frame["data"]["sequence"], frame["data"]["turn_id"]) == (2, "t")
    assert len(read_log(client, cell)) == 2


def test_a_websocket_of_version_2_answers_everything(
    client: httpx.Client, node: NodeProcess, cell: str
) -> None:
    append(client, cell, 2)
    with connect(_ws(node, f"{cell}/ws?v=2&since=0")) as ws:
        assert [json.loads(ws.recv(60))["data"]["sequence"] for _ in range(2)] == [1, 2]
        ws.send(json.dumps({"action": "append_event", "event_type": "note", "payload": 1, "ref": 7}))
        both = {frame["type"]: frame for frame in (json.loads(ws.recv(60)) for _ in range(2))}
        assert both["ack"]["sequence"] == both["event"]["data"]["sequence"] == 3
        assert (both["ack"]["ref"], both["ack"]["id"]) == (7, both["event"]["data"]["id"])
        for sent, kind in (
            ('{"action":"ping","ref":"p"}', "pong"),
            ('{"action":"get_meta"}', "meta"),
            ('{"action":"fly"}', "error"),
            ("{", "error"),
            ("[]", "error"),
            ('{"action":"append_event","event_type":1,"payload":1}', "error"),
        ):
            ws.send(sent)
            frame = json.loads(ws.recv(60))
            assert frame["type"] == kind, frame
    assert read_log(client, cell)[-1]["sequence"] == 3


def test_a_websocket_of_a_stale_branch_is_reset_and_goes_on(
    client: httpx.Client, node: NodeProcess, cell: str
) -> None:
    append(client, cell, 2)
    checkpoint = client.post(cells(f"{cell}/checkpoints"), json={}).json()["checkpoint"]["id"]
    append(client, cell, 2)
    client.post(cells(f"{cell}/restore"), json={"checkpoint_id": checkpoint})
    with connect(_ws(node, f"{cell}/ws?v=2&since=4&branch=0")) as ws:
        reset, rewound = (json.loads(ws.recv(60)) for _ in range(2))
    assert reset == {
        "type": "reset",
        "data": {"reason": "stale_branch", "since": 4, "resume_from": 2, "branch": 1},
    }
    assert (rewound["data"]["sequence"], rewound["data"]["event_type"]) == (3, "rewound")


def test_a_websocket_for_a_bad_cell_is_refused_with_its_status(node: NodeProcess) -> None:
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus) as refused, connect(_ws(node, ".bad/ws")):
        pass
    assert refused.value.response.status_code == 400


def test_a_hundred_readers_all_get_everything(
    node: NodeProcess, client: httpx.Client, cell: str, tmp_path: Path
) -> None:
    append(client, cell, 1)
    host, port = node.address.removeprefix("http://").split(":")
    readers = []
    for _ in range(100):
        opened = socket.create_connection((host, int(port)))
        opened.sendall(f"GET {cells(cell)}/stream?since=0 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        opened.settimeout(60)
        readers.append(opened)
    append(client, cell, 20)
    for opened in readers:
        received = b""
        while b"id: 21\n" not in received:
            received += opened.recv(1 << 16)
        opened.close()
        assert [int(line[4:]) for line in received.splitlines() if line.startswith(b"id: ")] == list(
            range(1, 22)
        )

"""Three nodes, one blob store, writers under way; nodes die, freeze and leave. Nothing acknowledged is lost."""

from __future__ import annotations

import json
import random
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.cellz.load import Writer, check
from tests.cellz.running import NodeProcess, append, cells, read_log
from tests.lab.s3 import S3

TTL_S = 1.5
NODES = 3
CELLS = 3
# Far above TTL plus 2 s, which `make soak` and the benchmark measure: here only the outcome counts.
PATIENCE_S = 60.0


@contextmanager
def fleet(folder: Path, count: int = NODES, **settings: object) -> Iterator[list[NodeProcess]]:
    """Nodes on one store; each may be killed and started again."""
    nodes = [
        NodeProcess(folder, f"n{number}", **{"lease_ttl": TTL_S, "sync": "commit", **settings})
        for number in range(count)
    ]
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            if node.process is not None:
                node.kill()


def one_round(nodes: list[NodeProcess], writers: list[Writer], chance: random.Random) -> float:
    """Do something bad to one node, wait until every cell is written again, and return how long that took."""
    victim = chance.choice(nodes)
    deed = chance.choice(["kill", "stop", "terminate"])
    began = time.monotonic()
    if deed == "kill":
        victim.kill()
    elif deed == "terminate":
        assert victim.terminate() == 0, victim.log_path.read_text()
    else:
        victim.signal(signal.SIGSTOP)
    for writer in writers:
        writer.wait_for(3, PATIENCE_S)
    took = max(writer.last_ack_at for writer in writers) - began
    if deed == "stop":
        time.sleep(chance.choice([0.0, TTL_S]))
        victim.signal(signal.SIGCONT)
    else:
        victim.start()
    for writer in writers:
        writer.wait_for(3, PATIENCE_S)
    return took


def survive(nodes: list[NodeProcess], rounds: int, seed: int) -> list[float]:
    """Run rounds and check every log at the end; return how long each round kept the writers waiting."""
    chance = random.Random(seed)
    up = [node.address for node in nodes]
    writers = [
        Writer(f"c{number}-{uuid.uuid4().hex[:8]}", lambda: [node.address for node in nodes]).start()
        for number in range(CELLS)
    ]
    assert len(up) == len(nodes)
    for writer in writers:
        writer.wait_for(3, PATIENCE_S)
    took = [one_round(nodes, writers, chance) for _ in range(rounds)]
    for writer in writers:
        writer.stop()
    for writer in writers:
        check(writer, log_of(nodes, writer.cell))
        assert len(writer.acked) > rounds
    return took


def log_of(nodes: list[NodeProcess], cell: str) -> list[dict[str, object]]:
    """Return a cell's log from whichever node has it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for node in nodes:
            with node.client() as client:
                try:
                    if client.get(cells(cell)).status_code == 200:
                        return read_log(client, cell)
                except (httpx.HTTPError, AssertionError):
                    continue
        time.sleep(0.1)
    raise AssertionError(f"no node has {cell}")


@pytest.mark.timeout(600)
def test_ten_rounds_of_death_lose_nothing_acknowledged(tmp_path: Path) -> None:
    with fleet(tmp_path) as nodes:
        survive(nodes, 10, seed=1)


@pytest.mark.s3
@pytest.mark.timeout(600)
def test_rounds_of_death_on_s3_lose_nothing_acknowledged(tmp_path: Path, s3: S3) -> None:
    settings = {
        "s3_endpoint": s3.endpoint,
        "s3_bucket": s3.bucket(f"b{uuid.uuid4().hex}"),
        "s3_access_key_id": s3.access_key,
        "s3_secret_access_key": s3.secret_key,
        "s3_region": s3.region,
    }
    with fleet(tmp_path, **settings) as nodes:
        survive(nodes, 1, seed=2)


@pytest.mark.soak
def test_a_hundred_rounds_of_death_lose_nothing_acknowledged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fleet(tmp_path) as nodes:
        took = sorted(survive(nodes, 100, seed=int(time.time())))
    with capsys.disabled():
        print(
            f"\nwriters waited p50 {took[50]:.2f} s, p95 {took[94]:.2f} s, most {took[-1]:.2f} s; TTL {TTL_S} s"
        )


def test_a_paused_holder_that_wakes_late_acknowledges_nothing(tmp_path: Path) -> None:
    """It is frozen past its TTL, a peer takes the cell and writes; the sleeper's own clients get no 201 from it."""
    with fleet(tmp_path, 2, lease_ttl=4) as (first, second):
        with first.client() as client:
            append(client, "c", 3)
        first.signal(signal.SIGSTOP)
        with second.client() as client:
            _until_active(client, "c")
            append(client, "c", 2)
        first.signal(signal.SIGCONT)
        with first.client() as client:
            answer = client.post(cells("c/events"), json={"event_type": "late", "payload": None})
            assert answer.status_code in (421, 503), answer.text
        with second.client() as client:
            assert [event["event_type"] for event in read_log(client, "c")] == ["note"] * 5


def _until_active(client: httpx.Client, cell: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = client.get(cells(cell))
        if answer.status_code == 200:
            return
        assert answer.status_code in (421, 503), answer.text
        time.sleep(0.05)
    raise AssertionError(f"{cell} was not taken over")


@pytest.mark.parametrize("sync", ["commit", "interval:1s", "evict"])
def test_after_sigterm_a_peer_has_the_cell_at_its_first_request(tmp_path: Path, sync: str) -> None:
    """SIGTERM: snapshot, release, exit 0. The TTL is an hour, so nothing but the release lets the peer in."""
    with fleet(tmp_path, 2, sync=sync, lease_ttl=3600) as (first, second):
        with first.client() as client:
            written = append(client, "c", 5)
            client.post(cells("c/kv"), json={"key": "k", "value": 1})
        assert first.terminate() == 0, first.log_path.read_text()
        with second.client() as client:
            assert read_log(client, "c") == written
            assert client.get(cells("c/kv")).json() == {"kv": {"k": 1}}
            assert append(client, "c")[0]["sequence"] == 6


@pytest.mark.parametrize("sync", ["commit", "interval:1s"])
def test_a_killed_node_has_its_own_cells_back_at_once(tmp_path: Path, sync: str) -> None:
    """Its node id is stable, so it need not wait for its own lease, here of an hour; its disk has everything."""
    with fleet(tmp_path, 1, sync=sync, lease_ttl=3600) as (node,):
        with node.client() as client:
            written = append(client, "c", 5)
        node.kill()
        node.start()
        with node.client() as client:
            assert read_log(client, "c") == written
            assert append(client, "c")[0]["sequence"] == 6


def test_in_interval_mode_a_peer_has_what_was_shipped_before_the_kill(tmp_path: Path) -> None:
    """Writes go on during every upload, and none falls between two."""
    with fleet(tmp_path, 2, sync="interval:10ms", snapshot_slots=20) as (first, second):
        with first.client() as client:
            written = append(client, "c", 400)
            deadline = time.monotonic() + PATIENCE_S
            while client.get("/state").json()["sync"]["cells_behind"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        first.kill()
        with second.client() as client:
            _until_active(client, "c")
            assert read_log(client, "c") == written


def test_a_killed_node_that_lost_its_disk_has_everything_acknowledged_in_commit_mode(tmp_path: Path) -> None:
    with fleet(tmp_path, 1, node_id="stable", lease_ttl=3600) as (node,):
        with node.client() as client:
            written = append(client, "c", 5)
        node.kill()
        for path in (tmp_path / "n0").iterdir():
            path.unlink()
        node.start()
        with node.client() as client:
            assert read_log(client, "c") == written


def test_a_cell_held_elsewhere_is_421_with_the_owners_address(tmp_path: Path) -> None:
    with fleet(tmp_path, 2, lease_ttl=3600) as (first, second), first.client() as one, second.client() as two:
        append(one, "c", 1)
        for answer in (
            two.get(cells("c")),
            two.post(cells("c/events"), json={"event_type": "a", "payload": 1}),
            two.get(cells("c/stream?since=0")),
            two.post(cells(), json={"id": "c"}),
        ):
            assert answer.status_code == 421, answer.text
            assert answer.headers["x-cellz-owner"] == first.address
            assert int(answer.headers["retry-after"]) >= 1


def test_forwarding_reaches_the_owner_when_it_is_on(tmp_path: Path) -> None:
    nodes = fleet(tmp_path, 2, lease_ttl=3600, forward="true")
    with nodes as (first, second), first.client() as one, second.client() as two:
        append(one, "c", 1)
        assert append(two, "c", 1)[0]["sequence"] == 2
        assert [event["sequence"] for event in read_log(two, "c")] == [1, 2]
        missing = two.post(cells("c/restore"), json={"checkpoint_id": "nope"})
        assert missing.status_code == 500


def test_forwarding_carries_websockets_both_ways(tmp_path: Path) -> None:
    nodes = fleet(tmp_path, 2, lease_ttl=3600, forward="true")
    with nodes as (first, second), first.client() as one:
        append(one, "c", 1)
        address = second.address.replace("http://", "ws://") + cells("c/ws?v=2&since=0")
        with connect(address) as ws:
            assert ws.response is not None
            assert ws.response.headers["x-cellz-branch"] == "0"
            assert json.loads(ws.recv(60))["data"]["sequence"] == 1
            ws.send(json.dumps({"action": "append_event", "event_type": "note", "payload": 1, "ref": 7}))
            both = {frame["type"]: frame for frame in (json.loads(ws.recv(60)) for _ in range(2))}
            assert (both["ack"]["sequence"], both["ack"]["ref"]) == (2, 7)
            assert both["event"]["data"]["sequence"] == 2
            assert one.post(cells("c/evict")).status_code == 200
            with pytest.raises(ConnectionClosed):
                ws.recv(60)


def test_without_forwarding_a_websocket_is_421(tmp_path: Path) -> None:
    with fleet(tmp_path, 2, lease_ttl=3600) as (first, second), first.client() as one:
        append(one, "c", 1)
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(second.address.replace("http://", "ws://") + cells("c/ws")),
        ):
            pass
        assert refused.value.response.status_code == 421
        assert refused.value.response.headers["x-cellz-owner"] == first.address

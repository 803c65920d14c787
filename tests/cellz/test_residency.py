"""Cells come and go: idleness, caps, open databases; what a fleet manager sees and asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from fleetctl.cellz.database import CHECKPOINT_BYTES
from tests.cellz.running import NodeProcess, append, append_many, cells, read_log, running

DEADLINE_S = 60.0


def state(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/state")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def until(what: Callable[[], bool], node: NodeProcess) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, node.log_path.read_text()
        time.sleep(0.05)


def test_an_idle_cell_is_evicted_and_a_query_brings_it_back(tmp_path: Path) -> None:
    """In the original, looking at the idle time counts as activity, so it never fires."""
    with running(tmp_path, idle_timeout=0.5, sync="evict") as node, node.client() as client:
        append(client, "c", 3)
        until(lambda: state(client)["resident"] == 0, node)
        assert (tmp_path / "storage" / "cells" / "c.meta.json").exists()
        assert len(read_log(client, "c")) == 3
        assert state(client)["resident"] == 1


def test_a_cell_with_a_live_reader_is_not_idle(tmp_path: Path) -> None:
    with running(tmp_path, idle_timeout=0.3) as node, node.client() as client, node.client() as other:
        append(client, "c", 1)
        append(client, "d", 1)
        with other.stream("GET", cells("c/stream")) as stream:
            lines = stream.iter_lines()
            next(lines)
            until(lambda: state(client)["resident"] == 1, node)
            assert [each["status"] for each in client.get(cells()).json()["cells"]] == ["active", "suspended"]


def test_over_the_cap_the_least_recently_used_go(tmp_path: Path) -> None:
    with running(tmp_path, max_resident=3, idle_timeout=0) as node, node.client() as client:
        for number in range(8):
            append(client, f"c{number}", 1)
        until(lambda: state(client)["resident"] == 3, node)
        names = {each["id"] for each in client.get(cells()).json()["cells"] if each["status"] == "active"}
        assert names == {"c5", "c6", "c7"}
        for number in range(8):
            assert append(client, f"c{number}", 1)[0]["sequence"] == 2


def test_a_memory_cap_evicts(tmp_path: Path) -> None:
    with running(tmp_path, max_memory=1, idle_timeout=0) as node, node.client() as client:
        for number in range(5):
            append(client, f"c{number}", 1)
        until(lambda: state(client)["resident"] == 0, node)


def test_open_databases_are_capped_and_the_cells_stay(tmp_path: Path) -> None:
    with running(tmp_path, max_open=8, idle_timeout=0) as node, node.client() as client:
        for number in range(40):
            append(client, f"c{number}", 1)
        until(lambda: state(client)["open"] <= 8, node)
        assert state(client)["resident"] == 40
        for number in range(40):
            assert append(client, f"c{number}", 1)[0]["sequence"] == 2
            assert [event["sequence"] for event in read_log(client, f"c{number}")] == [1, 2]


def test_threads_do_not_grow_with_cells(tmp_path: Path) -> None:
    with running(tmp_path) as node, node.client() as client:
        append(client, "first", 1)
        for number in range(60):
            append(client, f"c{number}", 1)
        threads = len(list(Path(f"/proc/{node.pid}/task").iterdir()))
        assert threads < 40, "a thread a cell would be more"


def test_state_tells_what_a_fleet_manager_needs(tmp_path: Path) -> None:
    with running(tmp_path, node_id="node-7", sync="interval:500ms") as node, node.client() as client:
        append(client, "c", 1)
        found = state(client)
        assert set(found) >= {"version", "node", "epoch", "resident", "draining", "restoring", "sync"}
        assert (found["node"], found["resident"], found["draining"]) == ("node-7", 1, False)
        assert found["epoch"] >= 1
        assert found["sync"]["mode"] == "interval:0.5s"
        assert "0.5 s" in found["sync"]["loss_window"]
        until(lambda: state(client)["sync"]["cells_behind"] == 0, node)


def test_drain_puts_every_cell_down_and_takes_no_new_ones(tmp_path: Path) -> None:
    with running(tmp_path) as node, node.client() as client:
        for number in range(5):
            append(client, f"c{number}", 2)
        assert client.get("/ready").status_code == 200
        answer = client.post("/drain")
        assert (answer.status_code, answer.json()) == (200, {"status": "drained", "resident": 0})
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
        refused = client.get(cells("c0"))
        assert refused.status_code == 503
        assert refused.json()["code"] == "cellz.not_ready"
        assert node.terminate() == 0
    with running(tmp_path, "other") as node, node.client() as client:
        for number in range(5):
            assert len(read_log(client, f"c{number}")) == 2


def test_sigterm_with_open_streams_ends_in_order(tmp_path: Path) -> None:
    with running(tmp_path, drain_timeout=30) as node, node.client() as client, node.client() as other:
        append(client, "c", 1)
        with other.stream("GET", cells("c/stream?since=0")) as stream:
            lines = stream.iter_lines()
            next(lines)
            assert node.terminate() == 0
            assert any(line.startswith("id: 1") for line in lines)


def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    with running(tmp_path) as node, node.client() as client:
        append(client, "c", 3)
        client.get(cells("c/nothing"))
        answer = client.get("/metrics")
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["cellz_events_appended"].samples[0].value == 3
    assert families["cellz_resident_cells"].samples[0].value == 1
    requests = {tuple(each.labels.values()): each.value for each in families["cellz_http_requests"].samples}
    assert requests["{id}/events", "201"] == 3
    assert "cellz_activation_seconds" in families


def test_a_thousand_writes_of_one_cell_at_once_are_all_in_order(tmp_path: Path) -> None:
    """Group commit: whatever waits goes together, and each gets its own sequence."""
    import threading

    with running(tmp_path, sync="commit") as node:
        got: list[int] = []

        def write() -> None:
            with node.client() as own:
                got.extend(event["sequence"] for event in append(own, "c", 50))

        threads = [threading.Thread(target=write) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == list(range(1, 1001))
        with node.client() as client:
            assert len(read_log(client, "c")) == 1000
        slots = len(list((tmp_path / "storage" / "cells" / "c.log").iterdir()))
        assert slots < 1000, "one slot a write is no group commit"


def test_a_big_cell_goes_and_comes_back_whole(tmp_path: Path) -> None:
    with running(tmp_path) as node, node.client() as client:
        append_many(client, "c", 5000)
        before = client.get(cells("c/export")).json()["export"]
        assert client.post(cells("c/evict")).status_code == 200
        after = client.get(cells("c/export")).json()["export"]
        before["meta"].pop("updated_at"), after["meta"].pop("updated_at")
        assert after == before


def test_a_long_wal_is_emptied_while_the_cell_is_written_to(tmp_path: Path) -> None:
    with running(tmp_path, sync="evict") as node, node.client() as client:
        wal = tmp_path / "node" / "c.db-wal"
        longest = 0
        for _ in range(64 * 4):
            append(client, "c", 1, payload="x" * 40_000)
            longest = max(longest, wal.stat().st_size)
        # Each look comes after 64 writes, of 2.7 MB together.
        assert CHECKPOINT_BYTES < longest < 5 * CHECKPOINT_BYTES
        assert (tmp_path / "node" / "c.db").stat().st_size > 64 * 40_000, "it was moved into the database"
        assert len(read_log(client, "c")) == 64 * 4

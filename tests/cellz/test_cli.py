"""`cellz export | import | verify`, and tracing with W3C context."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetctl.cellz.http import BodyWatch, Request
from fleetctl.cellz.traces import Tracer
from tests.cellz.running import append, cells, read_log, running


def cellz(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetctl.cellz.cli", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_export_import_and_verify_go_round(tmp_path: Path) -> None:
    with running(tmp_path) as node, node.client() as client:
        written = append(client, "c", 3, event_type="user_message")
        client.post(cells("c/kv"), json={"key": "k", "value": {"deep": [1]}})
        served = client.get(cells("c/export")).json()["export"]
        live = cellz("export", "c", "--data-dir", str(tmp_path / "node"))
        assert json.loads(live.stdout) == served, "a running node does not keep the command from reading"
        assert node.terminate() == 0
    document = cellz("export", "c", "--data-dir", str(tmp_path / "node")).stdout
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    done = cellz("import", "c", "-", "--data-dir", str(fresh), stdin=document)
    assert done.returncode == 0, done.stderr
    sound = cellz("verify", "c", "--data-dir", str(fresh))
    assert (sound.returncode, sound.stdout) == (0, "cell 'c': sequence 3, branch 0, epoch 0: sound\n")
    with running(tmp_path, "fresh", storage_dir=tmp_path / "new") as node, node.client() as client:
        assert read_log(client, "c") == written
        assert append(client, "c")[0]["sequence"] == 4


def test_import_refuses_what_is_there_and_what_is_no_export(tmp_path: Path) -> None:
    bad = cellz("import", "c", "-", "--data-dir", str(tmp_path), stdin='{"meta":{}}')
    assert bad.returncode == 1
    assert "is no export of a cell" in bad.stderr
    assert not (tmp_path / "c.db").exists()
    assert cellz("import", "c", "-", "--data-dir", str(tmp_path), stdin="{").returncode == 1
    (tmp_path / "c.db").write_bytes(b"")
    there = cellz("import", "c", "-", "--data-dir", str(tmp_path), stdin="{}")
    assert there.returncode == 1
    assert "exists at" in there.stderr


@pytest.mark.parametrize("command", ["export", "verify"])
def test_an_absent_cell_or_bad_id_is_an_error(tmp_path: Path, command: str) -> None:
    absent = cellz(command, "none", "--data-dir", str(tmp_path))
    assert (absent.returncode, absent.stderr.startswith("error: there is no database of cell 'none'")) == (
        1,
        True,
    )
    assert cellz(command, "../x", "--data-dir", str(tmp_path)).returncode == 1


def test_verify_exits_1_for_a_damaged_database(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"SQLite format 3\x00" + b"rubbish" * 1000)
    found = cellz("verify", "c", "--data-dir", str(tmp_path))
    assert found.returncode == 1
    assert "damaged" in found.stderr


def test_every_setting_is_in_the_help() -> None:
    text = cellz("serve", "--help").stdout
    assert "--lease-ttl" in text
    assert "CELLZ_SYNC" in text


def _request(headers: list[tuple[bytes, bytes]]) -> Request:
    scope: dict[str, Any] = {"method": "GET", "path": "/", "headers": headers, "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    return Request(scope, receive, 100, BodyWatch(1))


def test_a_span_is_a_child_of_the_traceparent_it_came_with() -> None:
    from opentelemetry.trace import get_current_span

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with Tracer(True).span(_request([(b"traceparent", parent.encode())]), "{id}/events"):
        context = get_current_span().get_span_context()
        assert f"{context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_tracing_is_off_unless_wanted() -> None:
    assert not Tracer(False).on


def test_a_node_with_tracing_on_serves(tmp_path: Path) -> None:
    with running(tmp_path, otel="true") as node, node.client() as client:
        append(client, "c", 1)

"""Snapshots: whole or not there, never an old holder's over a successor's; the newest sound one restores."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetctl.cellz.disk import DiskBlobs
from fleetctl.cellz.errors import Fenced, StoreTrouble
from fleetctl.cellz.restore import Base, Local, choose
from fleetctl.cellz.snapshots import EMPTY, Manifest, Publication, Publisher, Snapshot, read_manifest
from tests.cellz.faulty import FaultyBlobs
from tests.cellz.running import append, append_many, cells, read_log, running

META = '{"id":"c","event_sequence":3}'


def no_wait(_: float) -> None:
    """Tests do not wait between tries."""


@pytest.fixture
def faulty(tmp_path: Path) -> FaultyBlobs:
    return FaultyBlobs(DiskBlobs(tmp_path, fsync=False))


@pytest.fixture
def publisher(faulty: FaultyBlobs) -> Publisher:
    numbers = itertools.count()
    return Publisher(faulty, keep=2, nonce=lambda: f"{next(numbers):08d}", sleep=no_wait)


def publication(epoch: int, sequence: int, data: bytes = b"SQLite format 3\x00 x") -> Publication:
    return Publication("c", data, META, epoch, sequence, sequence)


def test_the_manifest_is_the_originals_meta_with_ours_beside(
    publisher: Publisher, faulty: FaultyBlobs
) -> None:
    publisher.publish(publication(1, 3))
    blob = faulty.get("cells/c.meta.json")
    assert blob is not None
    data = json.loads(blob.data)
    assert (data["id"], data["event_sequence"], data["cellz"]["epoch"]) == ("c", 3, 1)
    plain = faulty.get("cells/c.db")
    assert plain is not None
    assert plain.data == b"SQLite format 3\x00 x"


def test_an_old_epoch_never_replaces_a_newer_one_and_leaves_nothing(
    publisher: Publisher, faulty: FaultyBlobs
) -> None:
    publisher.publish(publication(2, 5))
    before = sorted(faulty.keys("cells/"))
    with pytest.raises(Fenced):
        publisher.publish(publication(1, 9))
    assert read_manifest(faulty, "c", no_wait).epoch == 2
    assert sorted(faulty.keys("cells/")) == before


def test_only_the_newest_are_kept(publisher: Publisher, faulty: FaultyBlobs) -> None:
    for sequence in range(1, 6):
        publisher.publish(publication(1, sequence))
    assert [each.sequence for each in read_manifest(faulty, "c", no_wait).snapshots] == [5, 4]
    assert len([key for key in faulty.keys("cells/") if ".db." in key]) == 2


@pytest.mark.parametrize("fault", ["lost", "failed", "busy"])
@pytest.mark.parametrize("position", range(6))
def test_a_fault_at_any_call_leaves_the_old_or_the_new_manifest(
    publisher: Publisher, faulty: FaultyBlobs, fault: str, position: int
) -> None:
    publisher.publish(publication(1, 3))
    faulty.plan.extend([""] * position + [fault])
    publisher.publish(publication(1, 4))
    manifest = read_manifest(faulty, "c", no_wait)
    assert manifest.snapshots[0].sequence == 4
    assert all(faulty.inner.get(each.key) is not None for each in manifest.snapshots)


def test_a_dead_store_is_trouble_and_keeps_the_old_manifest(
    publisher: Publisher, faulty: FaultyBlobs
) -> None:
    publisher.publish(publication(1, 3))
    faulty.plan.extend(["failed"] * 50)
    with pytest.raises(StoreTrouble):
        publisher.publish(publication(1, 4))
    faulty.plan.clear()
    assert read_manifest(faulty, "c", no_wait).snapshots[0].sequence == 3


SNAPSHOT = Snapshot("k", 3, 7, 10, 1, "d")


@pytest.mark.parametrize(
    ("local", "manifest", "log_epoch", "base"),
    [
        (None, EMPTY, 0, Base.NEW),
        (None, Manifest(3, (SNAPSHOT,), "t", 10), 0, Base.REMOTE),
        (None, EMPTY, 2, Base.REMOTE),
        (Local(3, 7, 10, True), Manifest(3, (SNAPSHOT,), "t", 10), 0, Base.LOCAL),
        (Local(3, 7, 12, False), Manifest(3, (SNAPSHOT,), "t", 10), 3, Base.LOCAL_AHEAD),
        (Local(4, 0, 12, False), Manifest(3, (SNAPSHOT,), "t", 10), 0, Base.LOCAL_AHEAD),
        (Local(2, 5, 99, False), Manifest(3, (SNAPSHOT,), "t", 10), 0, Base.REMOTE),
        (Local(3, 5, 10, True), Manifest(3, (SNAPSHOT,), "t", 10), 4, Base.REMOTE),
        (Local(1, 5, 10, True), EMPTY, 0, Base.LOCAL),
        (Local(0, 0, 10, False), EMPTY, 0, Base.LOCAL_AHEAD),
        # An original's snapshot has no epoch: the longer log wins.
        (Local(0, 0, 5, False), Manifest(0, (Snapshot("k", 0, 0, 9, 0, ""),), "t", 9), 0, Base.ORIGINAL),
        (Local(7, 5, 5, True), Manifest(0, (Snapshot("k", 0, 0, 9, 0, ""),), "t", 9), 7, Base.ORIGINAL),
        (None, Manifest(0, (Snapshot("k", 0, 0, 9, 0, ""),), "t", 9), 7, Base.ORIGINAL),
        (Local(0, 0, 12, False), Manifest(0, (Snapshot("k", 0, 0, 9, 0, ""),), "t", 9), 0, Base.LOCAL_AHEAD),
    ],
)
def test_where_a_cell_is_restored_from(
    local: Local | None, manifest: Manifest, log_epoch: int, base: Base
) -> None:
    assert choose(local, manifest, log_epoch) is base


def snapshots(folder: Path) -> list[Path]:
    """Return the snapshot files of cell c, newest first."""
    manifest = json.loads((folder / "storage" / "cells" / "c.meta.json").read_text())
    return [folder / "storage" / each["key"] for each in manifest["cellz"]["snapshots"]]


@pytest.mark.parametrize("sync", ["commit", "interval:100ms"])
def test_a_damaged_snapshot_is_reported_and_the_log_leads_there_from_the_older_one(
    tmp_path: Path, sync: str
) -> None:
    """The shared log reaches back to the oldest kept snapshot, so nothing is lost on the way."""
    with running(tmp_path, sync=sync) as node, node.client() as client:
        for _ in range(3):
            append_many(client, "c", 100)
            assert client.post(cells("c/backup")).status_code == 200
        append_many(client, "c", 10)
        assert node.terminate() == 0
    newest = snapshots(tmp_path)[0]
    newest.write_bytes(newest.read_bytes()[:-100] + b"x" * 100)
    with running(tmp_path, "other", sync=sync) as node, node.client() as client:
        assert [event["sequence"] for event in read_log(client, "c")] == list(range(1, 311))
        assert any(line["message"] == "damaged snapshot passed over" for line in node.log())


def test_when_no_snapshot_is_sound_the_cell_is_503_and_not_empty(tmp_path: Path) -> None:
    with running(tmp_path, sync="evict") as node, node.client() as client:
        append_many(client, "c", 100)
        assert node.terminate() == 0
    for path in snapshots(tmp_path):
        path.write_bytes(b"rubbish")
    with running(tmp_path, "other", sync="evict") as node, node.client() as client:
        answer = client.get(cells("c"))
        assert answer.status_code == 503
        assert "no snapshot of cell 'c' is sound" in answer.json()["error"]


def test_a_local_tail_that_another_node_outran_is_set_aside_and_never_served(tmp_path: Path) -> None:
    """evict mode: the writes since the last backup are the stated loss window; the file stays for a person."""
    with (
        running(tmp_path, "a", sync="evict", lease_ttl=1) as first,
        running(tmp_path, "b", sync="evict", lease_ttl=1) as second,
    ):
        with first.client() as client:
            append(client, "c", 3)
            assert client.post(cells("c/backup")).status_code == 200
            append(client, "c", 2, event_type="tail")
        first.kill()
        with second.client() as client:
            _until_active(client)
            append(client, "c", 1, event_type="after")
            assert second.terminate() == 0
        first.start()
        with first.client() as client:
            assert [event["event_type"] for event in read_log(client, "c")] == ["note"] * 3 + ["after"]
        aside = [path.name for path in (tmp_path / "a").iterdir() if ".aside-" in path.name]
        assert len(aside) == 1


def _until_active(client: httpx.Client) -> None:
    import time

    deadline = time.monotonic() + 60
    while client.get(cells("c")).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _original(folder: Path, cell: str, count: int) -> None:
    """Make a database as cellz 0.2.1 leaves it: the seed's five tables and nothing else."""
    seed = (Path(__file__).parents[2] / "fleetctl" / "cellz" / "sql" / "seed.sql").read_text()
    with closing(sqlite3.connect(folder / f"{cell}.db")) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.executescript(seed)
        at = "2026-01-01T00:00:00.123456789+00:00"
        conn.execute(
            "INSERT INTO cell_meta VALUES (?, 'old', 'suspended', ?, ?, ?, '{}')", (cell, count, at, at)
        )
        conn.executemany(
            "INSERT INTO events VALUES (?, ?, NULL, 'note', '1', ?)",
            [(number, f"00000000-0000-4000-8000-{number:012d}", at) for number in range(1, count + 1)],
        )
        conn.commit()


@pytest.fixture
def originals(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "node").mkdir()
    _original(tmp_path / "node", "c", 5)
    yield tmp_path


@pytest.mark.parametrize("sync", ["commit", "evict"])
def test_a_data_folder_of_the_original_is_taken_over(originals: Path, sync: str) -> None:
    with running(originals, sync=sync) as node, node.client() as client:
        meta: dict[str, Any] = client.get(cells("c")).json()["cell"]
        assert (meta["name"], meta["status"], meta["event_sequence"]) == ("old", "active", 5)
        assert read_log(client, "c")[0]["created_at"] == "2026-01-01T00:00:00.123456789Z"
        assert append(client, "c")[0]["sequence"] == 6


def test_a_bucket_of_the_original_is_restored_from(originals: Path) -> None:
    """`cells/<id>.db` and `cells/<id>.meta.json` without our section, and its lease, long expired."""
    store = originals / "storage" / "cells"
    store.mkdir(parents=True)
    shutil.move(originals / "node" / "c.db", store / "c.db")
    (store / "c.meta.json").write_text(
        '{"id":"c","name":"old","status":"active","event_sequence":5,"created_at":"2026-01-01T00:00:00Z",'
        '"updated_at":"2026-01-01T00:00:00Z","metadata":{}}'
    )
    with running(originals) as node, node.client() as client:
        assert len(read_log(client, "c")) == 5
        assert append(client, "c")[0]["sequence"] == 6
        assert client.post(cells("c/evict")).status_code == 200
    meta = json.loads((store / "c.meta.json").read_text())
    assert (meta["event_sequence"], meta["cellz"]["snapshots"][0]["sequence"]) == (6, 6)
    with closing(sqlite3.connect(store / "c.db")) as conn:
        assert conn.execute("SELECT count(*) FROM events").fetchone() == (6,)


@pytest.mark.parametrize("sync", ["interval:100ms", "evict"])
def test_a_cell_goes_to_an_original_node_and_comes_back(tmp_path: Path, sync: str) -> None:
    """It takes `cells/<id>.db`, appends, and writes both names anew, without our manifest; then it deletes the lease."""
    with running(tmp_path, sync=sync) as node, node.client() as client:
        append(client, "c", 3)
        assert client.post(cells("c/evict")).status_code == 200
    store = tmp_path / "storage"
    with closing(sqlite3.connect(store / "cells" / "c.db")) as conn:
        conn.execute("INSERT INTO events VALUES (4, 'x', NULL, 'theirs', '1', '2026-01-01T00:00:00+00:00')")
        conn.execute("UPDATE cell_meta SET event_sequence = 4")
        conn.commit()
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    manifest = json.loads((store / "cells" / "c.meta.json").read_text())
    del manifest["cellz"]
    manifest["event_sequence"] = 4
    (store / "cells" / "c.meta.json").write_text(json.dumps(manifest))
    (store / "leases" / "c.lease").unlink()
    for name in ("node", "other"):
        with running(tmp_path, name, sync=sync) as node, node.client() as client:
            _until_active(client)
            kinds = [event["event_type"] for event in read_log(client, "c")]
            assert kinds[:4] == ["note", "note", "note", "theirs"]
            append(client, "c", 1, event_type=name)
            assert node.terminate() == 0
    assert kinds[4:] == ["node"]


def test_the_seeds_five_tables_stay_as_they_are(tmp_path: Path) -> None:
    """What a database of ours says of them is, but for blanks, what the specification says."""
    with running(tmp_path) as node, node.client() as client:
        append(client, "c")
        node.terminate()
    ddl = (Path(__file__).parents[2] / "fleetctl" / "cellz" / "sql" / "seed.sql").read_text()
    with (
        closing(sqlite3.connect(":memory:")) as memory,
        closing(sqlite3.connect(tmp_path / "node" / "c.db")) as ours,
    ):
        memory.executescript(ddl)
        query = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'cellz_%' AND name NOT LIKE 'sqlite_%'"
        assert dict(ours.execute(query).fetchall()) == dict(memory.execute(query).fetchall())
        assert ours.execute("PRAGMA journal_mode").fetchone() == ("wal",)

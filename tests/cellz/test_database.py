"""One cell's database: what opening it for writing does to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.cellz.apply import transact
from fleetctl.cellz.database import CHECKPOINT_BYTES, CUT_BYTES, CellDb
from fleetctl.cellz.ops import Append, Create
from fleetctl.cellz.words import NewEvent

NORMAL = 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that was put down: no WAL beside it."""
    path = tmp_path / "c.db"
    db = CellDb("c", path)
    transact(db, [Create("c", "{}", "t")])
    db.close()
    return path


@pytest.fixture
def db(path: Path) -> Iterator[CellDb]:
    db = CellDb("c", path)
    yield db
    db.close()


def synchronous(db: CellDb) -> int:
    level: int = db.conn.execute("PRAGMA synchronous").fetchone()[0]
    return level


def test_only_the_first_transaction_of_an_empty_wal_syncs_nothing(db: CellDb) -> None:
    levels: list[int] = []

    def work() -> None:
        levels.append(synchronous(db))
        db.place(epoch=7)

    for _ in range(2):
        db.begin(work)
        assert synchronous(db) == NORMAL
    assert levels == [0, NORMAL]
    assert db.conn.execute("SELECT epoch FROM cellz_place").fetchone() == (7,)


def test_a_first_transaction_that_fails_leaves_the_syncs_on(db: CellDb) -> None:
    def work() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        db.begin(work)
    assert synchronous(db) == NORMAL


def test_older_frames_in_the_wal_keep_the_sync(path: Path) -> None:
    """A process that was killed leaves them; a header over them must be on the disk before new frames are."""
    reader = CellDb("c", path)
    reader.transaction(lambda: reader.place(epoch=3))
    levels: list[int] = []
    db = CellDb("c", path)
    db.begin(lambda: levels.append(synchronous(db)))
    assert levels == [NORMAL]
    db.close()
    reader.close()


def fill(db: CellDb) -> int:
    """Append until the WAL is long; return how many bytes that took."""
    filled = 0
    while not db.wal_is_long():
        transact(db, [Append((NewEvent(f"e{db.sequence}", None, "note", '"' + "x" * 4000 + '"', "t"),))])
        filled += 4000
    return filled


def test_a_wal_is_written_over_from_its_beginning_and_cut_when_it_has_grown(db: CellDb, path: Path) -> None:
    """It is no longer "long" because of the length that its file has had before: that would flush it again and again."""
    wal = Path(f"{path}-wal")
    lengths = []
    for _ in range(70):
        # A frame is longer than the event in it; most of the file has to be filled anew before it is long again.
        assert fill(db) > CHECKPOINT_BYTES / 4
        transact(db, [Append((NewEvent(f"big{db.sequence}", None, "note", '"' + "x" * 300_000 + '"', "t"),))])
        db.recycle_wal()
        assert not db.wal_is_long()
        lengths.append(wal.stat().st_size)
    assert max(lengths) <= CUT_BYTES
    cuts = [n for n, length in enumerate(lengths) if length < CHECKPOINT_BYTES]
    assert 2 <= len(cuts) <= 25
    assert len(db.events(limit=-1)) == db.sequence
    assert db.healthy()


def test_a_wal_that_somebody_else_reads_is_left_for_the_next_time(db: CellDb, path: Path) -> None:
    fill(db)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchone()
    transact(db, [Append((NewEvent("last", None, "note", "1", "t"),))])
    db.conn.execute("PRAGMA busy_timeout = 10")
    db.recycle_wal()
    assert db.wal_is_long()
    reader.close()
    db.recycle_wal()
    assert not db.wal_is_long()

"""One cell's database: what opening it for writing does to the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.cellz.apply import transact
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.ops import Create

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

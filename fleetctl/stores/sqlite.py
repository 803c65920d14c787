"""The embedded store: one SQLite file, WAL, synchronous=FULL, readable by its owner only.

Every write is one BEGIN IMMEDIATE transaction, so a racing writer waits instead of failing half-way
(a deferred one fails at once with BUSY_SNAPSHOT), and one commit is one sync of the write-ahead log.
Reads are short and fetched whole, so that no reader keeps the log from being reset.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from typing import Any

from executors.clock import Clock, rfc3339
from fleetctl.ledger.entries import decode, verified
from fleetctl.ledger.ports import Head, Holder, Lease
from fleetctl.stores import judgement
from fleetctl.stores.judgement import Row, Sighting
from fleetctl.stores.memory import START, chained, epoch_of, fresh_key, missing
from fleetctl.stores.processes import Processes
from fleetctl.stores.sqlite_file import damaged, open_reader, open_writer, translated
from manifests.digest import sha256

# The log is copied into the database when it has this many pages (16 MiB), and emptied at the end of a
# run: a checkpoint costs two syncs, so it must be rare beside the one sync of each transition.
CHECKPOINT_PAGES = 4096


class SqliteStore:
    """All ports of a state, in one file. Safe for use by several threads and processes.

    Arguments: `path` is the database file; `read_only` is for commands that only look: they create nothing
    and change nothing, and a file that is not there is an empty state. Methods raise StateError.
    """

    def __init__(self, path: Path, clock: Clock, processes: Processes, *, read_only: bool = False) -> None:
        self._path = path
        self._clock = clock
        self._processes = processes
        self._read_only = read_only
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    def fleets(self) -> Sequence[str]:
        return [str(r[0]) for r in self._rows("SELECT DISTINCT fleet FROM entries ORDER BY fleet")]

    def head(self, fleet: str) -> Head:
        rows = self._rows(_LAST, fleet)
        return self._head(fleet, rows)

    def read(self, fleet: str, after: int = 0) -> Iterable[Mapping[str, Any]]:
        rows = self._rows(
            "SELECT body, sha256 FROM entries WHERE fleet = ? AND sequence >= ? ORDER BY sequence",
            fleet,
            after,
        )
        if after == 0:
            return verified(rows, fleet, START)
        before = Head(after, rows[0][1]) if rows else Head(after)
        return verified(rows[1:], fleet, before)

    def append(self, fleet: str, expected: int, entries: Sequence[Mapping[str, Any]], epoch: int) -> Head:
        with self._write() as db:
            row = db.execute("SELECT epoch FROM leases WHERE fleet = ?", (fleet,)).fetchone()
            if row is not None and epoch < row[0]:
                raise judgement.fenced(fleet, epoch, row[0])
            head = self._head(fleet, db.execute(_LAST, (fleet,)).fetchall())
            rows, after = chained(fleet, head, expected, entries)
            db.executemany(
                "INSERT INTO entries (fleet, sequence, sha256, body) VALUES (?, ?, ?, ?)",
                [(fleet, expected + n, digest, data) for n, (data, digest) in enumerate(rows, 1)],
            )
        return after

    def acquire(self, fleet: str, holder: Holder, ttl_s: float) -> Lease:
        with self._write() as db:
            row, now_s = self._lease_row(db, fleet), self._clock.monotonic()
            sighting = self._sighting(db, fleet)
            taken = judgement.may_take(row, sighting, self._processes, now_s)
            if taken:
                at = rfc3339(self._clock.now())
                floor = epoch_of([(body, digest) for _, digest, body in db.execute(_LAST, (fleet,))])
                new_id = self._clock.new_id()
                row = judgement.granted(row, fleet, holder, ttl_s, new_id, at, floor=floor)
                self._put_lease(db, fleet, row)
                db.execute("DELETE FROM sightings WHERE fleet = ?", (fleet,))
            else:
                assert row is not None
                # Kept in the file, so that the next invocation on this machine goes on observing.
                seen = judgement.sighted(row, sighting, self._processes.machine(), now_s)
                db.execute(
                    "INSERT OR REPLACE INTO sightings (fleet, token, machine, seen_s) VALUES (?, ?, ?, ?)",
                    (fleet, seen.token, seen.machine, seen.seen_s),
                )
        assert row.lease is not None
        if not taken:
            raise judgement.held(row.lease)
        return row.lease

    def renew(self, lease: Lease) -> Lease:
        with self._write() as db:
            row = judgement.renewed(self._lease_row(db, lease.fleet), lease, rfc3339(self._clock.now()))
            self._put_lease(db, lease.fleet, row)
        assert row.lease is not None
        return row.lease

    def release(self, lease: Lease) -> None:
        with self._write() as db:
            row = self._lease_row(db, lease.fleet)
            if row is not None and row.lease is not None and row.lease.lease_id == lease.lease_id:
                self._put_lease(db, lease.fleet, Row(row.epoch, None))

    def current(self, fleet: str) -> Lease | None:
        rows = self._rows(_LEASE, fleet)
        return self._row_of(rows[0]).lease if rows else None

    def unlock(self, fleet: str, lease_id: str) -> Lease:
        with self._write() as db:
            row, taken = judgement.unlocked(self._lease_row(db, fleet), fleet, lease_id)
            self._put_lease(db, fleet, row)
        return taken

    def check(self, lease: Lease) -> None:
        rows = self._rows(_LEASE, lease.fleet)
        judgement.ensure(self._row_of(rows[0]) if rows else None, lease)

    def put(self, data: bytes) -> str:
        digest = sha256(data)
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO documents (digest, body) VALUES (?, ?)", (digest, data))
        return digest

    def get(self, digest: str) -> bytes:
        rows = self._rows("SELECT body FROM documents WHERE digest = ?", digest)
        if not rows:
            raise missing(digest)
        data = bytes(rows[0][0])
        if sha256(data) != digest:
            raise damaged(self._path, f"document {digest} has other bytes")
        return data

    def secrets_key(self) -> bytes | None:
        rows = self._rows("SELECT value FROM meta WHERE name = 'secrets_key'")
        return bytes(rows[0][0]) if rows else None

    def initialise(self, key: bytes | None = None) -> None:
        assert not self._read_only, "a reader does not make a state"
        with self._lock:
            if self._connection is None:
                self._connection = open_writer(self._path, CHECKPOINT_PAGES, create=True)
        with self._write() as db:
            db.execute(
                "INSERT OR IGNORE INTO meta (name, value) VALUES ('secrets_key', ?)",
                (key or fresh_key(self._clock),),
            )

    def describe(self) -> str:
        return str(self._path)

    def close(self) -> None:
        with self._lock:
            db, self._connection = self._connection, None
            if db is None:
                return
            try:
                if not self._read_only:
                    # Fails while another process reads; then the last one to close empties the log.
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error:
                pass  # nothing is lost by it: the log holds everything that was committed
            finally:
                db.close()

    def _open(self) -> sqlite3.Connection | None:
        """The connection, opened at first use; None where there is no state yet."""
        if self._connection is None:
            if not self._path.exists():
                return None
            if self._read_only:
                self._connection = open_reader(self._path)
            else:
                self._connection = open_writer(self._path, CHECKPOINT_PAGES, create=False)
        return self._connection

    def _rows(self, sql: str, *arguments: str | int) -> list[Any]:
        with self._lock, translated(self._path):
            db = self._open()
            return [] if db is None else db.execute(sql, arguments).fetchall()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        assert not self._read_only, "a reader does not write"
        with self._lock, translated(self._path):
            db = self._open()
            assert db is not None, "initialise() comes first"
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _head(self, fleet: str, rows: list[Any]) -> Head:
        if not rows:
            return START
        sequence, digest, body = rows[0]
        return Head(sequence, digest, decode(body, f"entry {sequence} of fleet {fleet}")["lineage"])

    def _row_of(self, row: Any) -> Row:
        epoch, renewals, text = row
        if text is None:
            return Row(epoch, None, renewals)
        fields = json.loads(text)
        return Row(epoch, Lease(**{**fields, "holder": Holder(**fields["holder"])}), renewals)

    def _lease_row(self, db: sqlite3.Connection, fleet: str) -> Row | None:
        row = db.execute(_LEASE, (fleet,)).fetchone()
        return None if row is None else self._row_of(row)

    def _put_lease(self, db: sqlite3.Connection, fleet: str, row: Row) -> None:
        text = None if row.lease is None else json.dumps(asdict(row.lease))
        db.execute(
            "INSERT OR REPLACE INTO leases (fleet, epoch, renewals, lease) VALUES (?, ?, ?, ?)",
            (fleet, row.epoch, row.renewals, text),
        )

    def _sighting(self, db: sqlite3.Connection, fleet: str) -> Sighting | None:
        row = db.execute("SELECT token, machine, seen_s FROM sightings WHERE fleet = ?", (fleet,)).fetchone()
        return None if row is None else Sighting(*row)


_LAST = "SELECT sequence, sha256, body FROM entries WHERE fleet = ? ORDER BY sequence DESC LIMIT 1"
_LEASE = "SELECT epoch, renewals, lease FROM leases WHERE fleet = ?"

"""One cell's SQLite database: connection, transactions and the reads of the contract.

Reads are short and fetched whole, so that no reader keeps the WAL from being reset (Q2). Every write
transaction is BEGIN IMMEDIATE, or one statement, which takes the write lock as it begins (Q1).
"""

from __future__ import annotations

import os
import sqlite3
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cellz.words import Message, Meta, NewEvent, Record, event_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SEED = resources.files("fleetctl.cellz").joinpath("sql/seed.sql").read_text()
_CONNECTION = resources.files("fleetctl.cellz").joinpath("sql/connection.sql").read_text()
_BESIDE = resources.files("fleetctl.cellz").joinpath("sql/beside.sql").read_text()
# Short, because reads run on the event loop; the pool tries writes again for longer (`trouble.patiently`).
_BUSY_TIMEOUT_S = 0.05
# A cell is small and there are thousands: 256 KiB of pages each, not SQLite's 2 MiB.
_CACHE_KIB = 256
# Bytes in the WAL before it is checkpointed between batches; SQLite's own trigger would fsync in a commit. It is then
# written over from its beginning, which needs no new blocks, and cut once it has grown to CUT_BYTES.
CHECKPOINT_BYTES = 4 << 20
CUT_BYTES = 3 * CHECKPOINT_BYTES
# An append dirties three pages whatever their size, and the WAL takes whole pages: half of SQLite's default
# halves what a checkpoint has to flush (docs/decisions/0702).
_PAGE_BYTES = 2048
# The most that `export` gives, as in the original.
EXPORT_EVENTS_MAX = 100_000
DEFAULT_PAGE = 500

_EVENT_COLUMNS = "sequence, id, turn_id, event_type, payload, created_at"


class CellDb:
    """An open cell; used by one thread at a time, which the cell's queue sees to."""

    def __init__(self, cell: str, path: Path) -> None:
        self.cell = cell
        self.path = path
        self._wal = f"{path}-wal"
        self._long_at = CHECKPOINT_BYTES
        fresh = not path.exists()
        self.conn = sqlite3.connect(
            path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            self._open(fresh)
        except BaseException:
            self.conn.close()
            raise

    def _open(self, fresh: bool) -> None:
        run = self.conn.execute
        run(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if fresh:
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA wal_autocheckpoint = 0")
        known = run("SELECT count(*) FROM sqlite_schema WHERE name = 'cellz_alarms'").fetchone()[0]
        if fresh or not known:
            self.conn.executescript("BEGIN IMMEDIATE;" + _SEED + _BESIDE + "COMMIT;")
        self.conn.executescript(_CONNECTION)
        self.reload()

    def reload(self) -> None:
        """Read again what is kept in memory: after opening, and after a transaction that was rolled back."""
        row = self.conn.execute("SELECT event_sequence FROM cell_meta WHERE id = ?", (self.cell,)).fetchone()
        self.exists = row is not None
        self.sequence: int = row[0] if row else 0
        place = self.conn.execute("SELECT epoch, branch, slot, clean, compacted FROM cellz_place").fetchone()
        self.epoch: int
        self.branch: int
        self.slot: int
        self.compacted: int
        self.epoch, self.branch, self.slot, clean, self.compacted = place
        self.clean = bool(clean)

    def transaction(self, work: Callable[[], None]) -> None:
        """Run `work` in one IMMEDIATE transaction; what it raises rolls everything back."""
        self.conn.execute("BEGIN IMMEDIATE")
        try:
            work()
            self.conn.execute("COMMIT")
        except BaseException:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            self.reload()
            raise

    def begin(self, work: Callable[[], None]) -> None:
        """Run `work` in the first transaction after opening; into an empty WAL without the sync of its header.

        Commits sync nothing in this mode, and a checkpoint syncs the WAL before it uses it. The header alone is synced
        at once, for the sake of older frames behind it; an empty WAL has none (docs/decisions/0720).
        """
        empty = not self._wal_bytes()
        if empty:
            self.conn.execute("PRAGMA synchronous = OFF")
        try:
            self.transaction(work)
        finally:
            if empty:
                self.conn.execute("PRAGMA synchronous = NORMAL")

    def place(self, **columns: int) -> None:
        """Set columns of cellz_place (epoch, branch, slot, clean, compacted), in memory too."""
        names = ", ".join(f"{name} = ?" for name in columns)
        self.conn.execute(f"UPDATE cellz_place SET {names}", tuple(columns.values()))  # noqa: S608  (own names)
        for name, value in columns.items():
            setattr(self, name, bool(value) if name == "clean" else value)

    def meta(self) -> Meta:
        """Return the cell's row; the cell must exist."""
        row = self.conn.execute(
            "SELECT id, name, status, event_sequence, created_at, updated_at, metadata FROM cell_meta WHERE id = ?",
            (self.cell,),
        ).fetchone()
        return Meta(*row)

    def set_status(self, status: str, at: str) -> None:
        """Record the lifecycle's word; a write of its own."""
        self.conn.execute(
            "UPDATE cell_meta SET status = ?, updated_at = ? WHERE id = ? AND status <> ?",
            (status, at, self.cell, status),
        )

    def events(self, since: int = 0, limit: int = DEFAULT_PAGE) -> list[Record]:
        """Return events after `since` in order, at most `limit` of them (negative: all)."""
        rows = self.conn.execute(
            f"SELECT {_EVENT_COLUMNS} FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608
            (since, limit),
        ).fetchall()
        return self._records(rows)

    def _records(self, rows: Sequence[tuple[int, str, str | None, str, str, str]]) -> list[Record]:
        cell = self.cell
        return [Record(row[0], row[3], event_json(row[0], cell, NewEvent._make(row[1:]))) for row in rows]

    def branch_events(self, branch: int, since: int, limit: int) -> list[Record]:
        """Return the log as it was when `branch` was cut: its own tail, and what it shared with later ones.

        Raises KeyError for a branch that never was.
        """
        if branch == self.branch:
            return self.events(since, limit)
        cuts = dict(
            self.conn.execute(
                "SELECT branch, target FROM cellz_branches WHERE branch >= ? ORDER BY branch", (branch,)
            ).fetchall()
        )
        if branch not in cuts:
            raise KeyError(branch)
        parts: list[str] = []
        arguments: list[int] = []
        ceiling = 2**62
        for each, target in cuts.items():
            parts.append(
                f"SELECT {_EVENT_COLUMNS} FROM cellz_abandoned WHERE branch = ? AND sequence > ? AND sequence <= ?"  # noqa: S608
            )
            arguments += [each, target, ceiling]
            ceiling = min(ceiling, target)
        parts.append(f"SELECT {_EVENT_COLUMNS} FROM events WHERE sequence <= ?")  # noqa: S608
        arguments.append(ceiling)
        rows = self.conn.execute(
            f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608
            (*arguments, since, limit),
        ).fetchall()
        return self._records(rows)

    def branches(self) -> list[tuple[int, int, int, str | None, str]]:
        """Return (branch, target, last, checkpoint_id, created_at) of every cut, oldest first."""
        return self.conn.execute(
            "SELECT branch, target, last, checkpoint_id, created_at FROM cellz_branches ORDER BY branch"
        ).fetchall()

    def messages(self) -> list[Message]:
        """Return the projection in the order in which it was written."""
        rows = self.conn.execute(
            "SELECT id, role, content, name, tool_call_id, created_at FROM messages ORDER BY rowid"
        ).fetchall()
        return [Message._make(row) for row in rows]

    def kv(self) -> dict[str, str]:
        """Return every key with its value as JSON text."""
        return dict(self.conn.execute("SELECT key, value FROM kv_state ORDER BY key").fetchall())

    def checkpoints(self) -> list[tuple[str, int, str, str]]:
        """Return (id, sequence, label, created_at), lowest sequence first."""
        return self.conn.execute(
            "SELECT id, sequence, label, created_at FROM checkpoints ORDER BY sequence, created_at"
        ).fetchall()

    def alarms(self) -> list[tuple[str, str, str, str | None, int, int, str]]:
        """Return (id, kind, spec, next_at, fired, missed, created_at), the next due first."""
        return self.conn.execute(
            "SELECT id, kind, spec, next_at, fired, missed, created_at FROM cellz_alarms "
            "ORDER BY next_at IS NULL, next_at, id"
        ).fetchall()

    def wal_is_long(self) -> bool:
        """Return whether the WAL file is over CHECKPOINT_BYTES, and longer than when it was last begun anew."""
        return self._wal_bytes() > self._long_at

    def _wal_bytes(self) -> int:
        try:
            return os.stat(self._wal).st_size  # noqa: PTH116  (a hot path)
        except FileNotFoundError:
            return 0

    def recycle_wal(self) -> None:
        """Empty the WAL into the database file and begin it anew; a reader elsewhere leaves it for the next time."""
        size = self._wal_bytes()
        cut = size > CUT_BYTES
        busy, _, _ = self.conn.execute(
            f"PRAGMA wal_checkpoint({'TRUNCATE' if cut else 'RESTART'})"
        ).fetchone()
        if not busy:
            self._long_at = CHECKPOINT_BYTES if cut else size
            # The first write of a WAL syncs its header. Here nobody waits for it; the row is as it was.
            self.transaction(self._dirty_a_page)

    def _dirty_a_page(self) -> None:
        self.conn.execute("UPDATE cellz_place SET slot = slot + 1")
        self.conn.execute("UPDATE cellz_place SET slot = slot - 1")

    def checkpoint(self) -> None:
        """Move the WAL into the database file and empty it; raises sqlite3.OperationalError if it cannot."""
        busy, _, _ = self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("database is locked: the WAL could not be checkpointed")
        self._long_at = CHECKPOINT_BYTES

    def healthy(self) -> bool:
        """Return whether SQLite finds the file sound (quick_check)."""
        found: tuple[str] | None = self.conn.execute("PRAGMA quick_check(1)").fetchone()
        return found == ("ok",)

    def close(self) -> None:
        """Close the connection."""
        self.conn.close()

"""What an error of SQLite means for a cell: retry, refuse, or quarantine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from fleetctl.cellz.errors import CellzError, Quarantined, StoreTrouble

T = TypeVar("T")

# Primary result codes (the low byte of an extended code).
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "the database is locked by another process",
    sqlite3.SQLITE_LOCKED: "the database is locked",
    sqlite3.SQLITE_IOERR: "the disk gave an error",
    sqlite3.SQLITE_READONLY: "the database is read-only",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened",
    sqlite3.SQLITE_NOMEM: "memory is exhausted",
}


_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# A lock that lasts longer is no writer's turn but somebody's open transaction.
_PATIENCE_TRIES = 50
_TRY_EVERY_S = 0.05


def _primary(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the lock; nothing was done then."""
    return _primary(error) in _BUSY


def patiently(work: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Run a whole transaction, and run it again while another connection holds the lock (Q1).

    Raises sqlite3.OperationalError when that lasts longer than five seconds. Never on the event loop.
    """
    for _ in range(_PATIENCE_TRIES):
        try:
            return work()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            sleep(_TRY_EVERY_S)
    return work()


def refusal(cell: str, error: sqlite3.Error) -> CellzError:
    """Return what a client is told; Quarantined when the file is damaged, else a passing StoreTrouble."""
    primary = _primary(error)
    if primary in _CORRUPT:
        return Quarantined(
            f"the database of cell '{cell}' is damaged: {error}",
            hint="POST .../evict sets the file aside; the next query restores the newest snapshot",
        )
    reason = _WORDS.get(primary, "SQLite failed") if primary is not None else "SQLite failed"
    return StoreTrouble(f"cell '{cell}': {reason} ({error})")


def told(cell: str, error: CellzError | sqlite3.Error | OSError) -> CellzError:
    """Return what a client is told of whatever went wrong with a cell."""
    if isinstance(error, CellzError):
        return error
    return (
        refusal(cell, error) if isinstance(error, sqlite3.Error) else StoreTrouble(f"cell '{cell}': {error}")
    )

"""What an error of SQLite means for a cell: retry, refuse, or quarantine."""

from __future__ import annotations

import sqlite3

from fleetctl.cellz.errors import CellzError, Quarantined, StoreTrouble

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


def refusal(cell: str, error: sqlite3.Error) -> CellzError:
    """Return what a client is told; Quarantined when the file is damaged, else a passing StoreTrouble."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in _CORRUPT:
        return Quarantined(
            f"the database of cell '{cell}' is damaged: {error}",
            hint="POST .../evict sets the file aside; the next query restores the newest snapshot",
        )
    reason = _WORDS.get(primary, "SQLite failed") if primary is not None else "SQLite failed"
    return StoreTrouble(f"cell '{cell}': {reason} ({error})")

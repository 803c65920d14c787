"""Opening the state's file: who may read it, whether it is whole, which version it is, and what went wrong.

A writer makes the file under another name and links it into place, so a file that is there was once
complete: an empty or headless one is damage, never a new state.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from fleetctl.ledger.ports import StateError

MAGIC = b"SQLite format 3\x00"
APPLICATION_ID = (
    0x666C6374  # "flct", in the file's header, so that another program's database is not taken for ours
)
SCHEMA_VERSION = 1
BUSY_TIMEOUT_MS = 5_000  # a writer holds the file for one short transaction at a time
_EXPOSED = stat.S_IRWXG | stat.S_IRWXO


def damaged(path: Path, why: str) -> StateError:
    """The error for a state that cannot be trusted."""
    return StateError(
        f"the state {path} is damaged: {why}",
        hint="nothing was changed. Keep the file (and those ending in -wal and -shm beside it), and restore a "
        "backup; without one, `fleetctl inventory` still shows what runs",
        code="state.damaged",
    )


def open_writer(path: Path, checkpoint_pages: int, *, create: bool) -> sqlite3.Connection:
    """A connection that may write; makes the file (0600) and its folder (0700) if `create`. Raises StateError."""
    with translated(path):
        if create and not path.exists():
            _make(path)
        _inspect(path)
        db = _connect(path, "mode=rw")
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA wal_autocheckpoint = {checkpoint_pages:d}")
            _check_version(db, path)
            _migrate(db)
        except BaseException:
            db.close()
            raise
        return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot change the state, also from a read-only folder. Raises StateError."""
    with translated(path):
        _inspect(path)
        if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
            # Not mode=ro: that would leave the log's helper files behind when it closes.
            db = _connect(path, "mode=rw")
        else:
            db = _connect_read_only(path)
        try:
            db.execute("PRAGMA query_only = ON")
            _check_version(db, path)
        except BaseException:
            db.close()
            raise
        return db


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns what SQLite and the system say into StateError with a hint."""
    try:
        yield
    except sqlite3.Error as e:
        raise _translate(e, path) from e
    except OSError as e:
        raise StateError(
            f"the state {path} cannot be used: {e.strerror or e}",
            hint="check the folder's rights and free space, or name another place with --state",
        ) from e


def _translate(e: sqlite3.Error, path: Path) -> StateError:
    # The low byte is the primary code; the others detail it.
    primary = getattr(e, "sqlite_errorcode", 0) & 0xFF
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, str(e))
    if primary == sqlite3.SQLITE_FULL:
        return StateError(
            f"the state {path} cannot be written: the disk is full",
            hint="make room, then run the command again; everything recorded so far is kept",
            code="state.disk_full",
        )
    if primary in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    ):
        return StateError(
            f"the state {path} cannot be written: {e}",
            hint="its file and folder must be writable for you; `plan` and `status` only need to read",
            code="state.read_only",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateError(
            f"the state {path} was busy for {BUSY_TIMEOUT_MS // 1000} s",
            hint="another process keeps it locked (a backup, a database browser?)",
            code="state.busy",
        )
    return StateError(
        f"the state {path} cannot be used: {e}",
        hint="check the disk; everything recorded so far is kept",
    )


def _inspect(path: Path) -> None:
    """Looks at a file before SQLite does: its kind, its rights, its first bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise StateError(f"the state {path} is not a file", hint="name the state's file with --state")
    if status.st_mode & _EXPOSED:
        raise StateError(
            f"the state {path} can be read or written by others (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"it holds the key of secret digests: chmod 600 {path}",
            code="state.exposed",
        )
    folder = path.parent.stat().st_mode
    if folder & (stat.S_IWGRP | stat.S_IWOTH) and not folder & stat.S_ISVTX:
        raise StateError(
            f"the folder of the state {path} can be written by others",
            hint=f"they could put another file in its place: chmod go-w {path.parent}",
            code="state.exposed",
        )
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head != MAGIC:
        raise damaged(path, "the file is empty" if not head else "it is not an SQLite database")


def _connect(path: Path, query: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
    )
    db.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS:d}")
    return db


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """SQLite needs a helper file beside a database with a log; where none can be made, the files are copied."""
    log = path.with_name(path.name + "-wal")
    if not log.exists() or log.stat().st_size == 0:
        return _connect(path, "immutable=1")
    with tempfile.TemporaryDirectory(prefix="fleetctl-state-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-wal"):
            shutil.copyfile(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
        db, held = _connect(copy, "mode=rw"), _connect(Path(folder) / "memory", "mode=memory")
        try:
            db.backup(held)
        finally:
            db.close()
        return held


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise StateError(
            f"{path} is a database of another program",
            hint="name the state's file with --state",
            code="state.foreign",
        )
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StateError(
            f"the state {path} was written by a newer fleetctl (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="use the newer fleetctl for this state",
            code="state.newer",
        )


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """The numbered migrations in order: (version that it leads to, SQL)."""
    folder = files("fleetctl.stores") / "migrations"
    named = sorted(
        (f.name, f.read_text(encoding="utf-8")) for f in folder.iterdir() if f.name.endswith(".sql")
    )
    return tuple((int(name.partition("_")[0]), sql) for name, sql in named)


def schema() -> str:
    """The newest schema as a whole."""
    return (files("fleetctl.stores") / "schema.sql").read_text(encoding="utf-8")


def _migrate(db: sqlite3.Connection) -> None:
    """Runs the migrations that the file has not had, each in a transaction with its version."""
    for version, sql in migrations():
        if version > db.execute("PRAGMA user_version").fetchone()[0]:
            db.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version:d};\nCOMMIT;")


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".new", dir=path.parent)
    os.close(descriptor)
    unfinished = Path(name)
    try:
        db = _connect(unfinished, "mode=rw")
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            db.executescript(f"BEGIN;\n{schema()}\nPRAGMA user_version = {SCHEMA_VERSION:d};\nCOMMIT;")
        finally:
            db.close()
        # A link fails where a rename would replace: two first runs at once end with one state.
        with suppress(FileExistsError):
            os.link(unfinished, path)
        _sync_folder(path.parent)
    finally:
        for suffix in ("", "-wal", "-shm"):
            unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A cell as one JSON document, and back: `GET .../export`, `cellz export`, `cellz import`, `cellz verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from fleetctl.cellz.database import EXPORT_EVENTS_MAX, CellDb
from fleetctl.cellz.errors import BadShape
from fleetctl.cellz.words import NewEvent, checkpoint_json, message_json, project, quote


def export_json(db: CellDb) -> str:
    """Return meta, events (at most EXPORT_EVENTS_MAX), messages, kv and checkpoints, as the original does."""
    events = ",".join([record.json for record in db.events(0, EXPORT_EVENTS_MAX)])
    messages = ",".join(map(message_json, db.messages()))
    kv = ",".join(f"{quote(key)}:{value}" for key, value in db.kv().items())
    checkpoints = ",".join(checkpoint_json(db.cell, row) for row in db.checkpoints())
    return (
        f'{{"meta":{db.meta().json()},"events":[{events}],"messages":[{messages}],'
        f'"kv":{{{kv}}},"checkpoints":[{checkpoints}]}}'
    )


def _sql_time(text: str) -> str:
    return text[:-1] + "+00:00" if text.endswith("Z") else text


def import_document(cell: str, path: Path, document: Any) -> CellDb:
    """Make a new database at `path` from an export; the events keep their sequences and ids.

    Raises BadShape with what is missing. The file is removed again if anything fails.
    """
    db = CellDb(cell, path)
    try:
        db.transaction(lambda: _fill(db, document.get("export", document)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        db.close()
        _remove(path)
        raise BadShape(f"the document is no export of a cell: {error!r}") from error
    except BaseException:
        db.close()
        _remove(path)
        raise
    db.reload()
    return db


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _fill(db: CellDb, data: dict[str, Any]) -> None:
    run = db.conn.execute
    meta = data["meta"]
    run(
        "INSERT INTO cell_meta VALUES (?, ?, 'suspended', ?, ?, ?, ?)",
        (
            db.cell,
            meta["name"],
            meta["event_sequence"],
            _sql_time(meta["created_at"]),
            _sql_time(meta["updated_at"]),
            orjson.dumps(meta.get("metadata", {})).decode(),
        ),
    )
    for event in data["events"]:
        payload = orjson.dumps(event["payload"]).decode()
        row = NewEvent(
            event["id"], event["turn_id"], event["event_type"], payload, _sql_time(event["created_at"])
        )
        run("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (event["sequence"], *row))
    for message in data["messages"]:
        run(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)",
            (
                message["id"],
                message["role"],
                message["content"],
                message.get("name"),
                message.get("tool_call_id"),
                _sql_time(message["created_at"]),
            ),
        )
    for key, value in data["kv"].items():
        run(
            "INSERT INTO kv_state VALUES (?, ?, ?)",
            (key, orjson.dumps(value).decode(), _sql_time(meta["updated_at"])),
        )
    for each in data["checkpoints"]:
        row4 = (each["id"], each["sequence"], each["label"], _sql_time(each["created_at"]))
        run("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", row4)
    first = data["events"][0]["sequence"] if data["events"] else meta["event_sequence"] + 1
    db.place(clean=0, compacted=first - 1)


def verify(db: CellDb) -> list[str]:
    """Return what is wrong with a cell: SQLite's own check, gaps in the log, and a projection that lies."""
    found = [row[0] for row in db.conn.execute("PRAGMA integrity_check") if row[0] != "ok"]
    if found:
        return found
    if not db.exists:
        return [f"the database has no row for cell '{db.cell}'"]
    count, low, high = db.conn.execute("SELECT count(*), min(sequence), max(sequence) FROM events").fetchone()
    if count:
        if low != db.compacted + 1:
            found.append(f"the log starts at {low}, and compaction says {db.compacted + 1}")
        if high != db.sequence:
            found.append(f"the log ends at {high}, and cell_meta says {db.sequence}")
        if high - low + 1 != count:
            found.append(f"the log has {high - low + 1 - count} gaps between {low} and {high}")
    elif db.sequence != db.compacted:
        found.append(f"the log is empty, and cell_meta says {db.sequence}")
    return found + _verify_projection(db)


def _verify_projection(db: CellDb) -> list[str]:
    messages = {message.id: message for message in db.messages()}
    found = []
    rows = db.conn.execute("SELECT id, turn_id, event_type, payload, created_at, sequence FROM events")
    for *event, sequence in rows.fetchall():
        expected = project(NewEvent._make(event))
        if expected is not None and messages.get(expected.id) != expected:
            found.append(f"event {sequence} is not what the messages say")
    return found

"""Apply an op to an open cell, inside the caller's transaction.

Each function checks before its first write, so a refused op leaves the transaction as it was and the ops
grouped with it go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fleetctl.cellz.errors import CellzError, Conflict, Failed, NotFound
from fleetctl.cellz.ops import (
    Append,
    CancelAlarm,
    Compact,
    Create,
    DeleteKv,
    FireAlarm,
    MakeCheckpoint,
    Op,
    PutKv,
    Rewind,
    SetAlarm,
    SetMetadata,
)
from fleetctl.cellz.words import ROLES, NewEvent, Record, event_json, project, quote

if TYPE_CHECKING:
    from fleetctl.cellz.database import CellDb

_INSERT_EVENT = (
    "INSERT INTO events (sequence, id, turn_id, event_type, payload, created_at) VALUES (?, ?, ?, ?, ?, ?)"
)
_APPEND_ONE = "INSERT INTO append_one (sequence, id, turn_id, event_type, payload, created_at) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_MESSAGE = (
    "INSERT INTO messages (id, role, content, name, tool_call_id, created_at) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET content = excluded.content"
)
_BUMP = "UPDATE cell_meta SET event_sequence = ?, updated_at = ? WHERE id = ?"


class Applied:
    """What an op did: records to broadcast, a value for the answer, where a restore cut the log, and
    whether the time of the next alarm changed (then `next_alarm` is it)."""

    __slots__ = ("alarms", "cut", "next_alarm", "records", "value")

    def __init__(self, records: list[Record], value: Any = None, cut: int | None = None) -> None:
        self.records = records
        self.value = value
        self.cut = cut
        self.alarms = False
        self.next_alarm: str | None = None


def next_alarm(db: CellDb) -> str | None:
    """Return when the cell's next alarm is due, as text, or None."""
    found: str | None = db.conn.execute("SELECT min(next_at) FROM cellz_alarms").fetchone()[0]
    return found


def _rescheduled(db: CellDb, applied: Applied) -> Applied:
    applied.alarms = True
    applied.next_alarm = next_alarm(db)
    return applied


def apply_op(db: CellDb, op: Op) -> Applied:
    """Apply one op and return what it did; raises CellzError before anything is written."""
    return _APPLY[type(op)](db, op)


def _append(db: CellDb, op: Append) -> Applied:
    return Applied(append_events(db, op.events))


def append_events(db: CellDb, events: tuple[NewEvent, ...]) -> list[Record]:
    """Give the events the next sequences, write them and their projection, and return their records."""
    if not events:
        return []
    sequence = db.sequence
    cell = db.cell
    records: list[Record] = []
    rows: list[tuple[Any, ...]] = []
    messages: list[Any] = []
    for event in events:
        sequence += 1
        rows.append((sequence, *event))
        records.append(Record(sequence, event.event_type, event_json(sequence, cell, event)))
        if event.event_type in ROLES:
            messages.append(project(event))
    conn = db.conn
    conn.execute(_BUMP, (sequence, events[-1].created_at, cell))
    if len(rows) == 1:
        conn.execute(_INSERT_EVENT, rows[0])
    else:
        conn.executemany(_INSERT_EVENT, rows)
    if messages:
        conn.executemany(_INSERT_MESSAGE, messages)
    db.sequence = sequence
    return records


def _append_alone(db: CellDb, event: NewEvent) -> Applied:
    """Append one event that is no message, as a statement that is its own transaction."""
    sequence = db.sequence + 1
    db.conn.execute(_APPEND_ONE, (sequence, *event))
    db.sequence = sequence
    return Applied([Record(sequence, event.event_type, event_json(sequence, db.cell, event))])


def _create(db: CellDb, op: Create) -> Applied:
    db.conn.execute(
        "INSERT INTO cell_meta (id, name, status, event_sequence, created_at, updated_at, metadata) "
        "VALUES (?, ?, 'active', 0, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (db.cell, op.name, op.at, op.at, op.metadata),
    )
    db.exists = True
    return Applied([])


def _put_kv(db: CellDb, op: PutKv) -> Applied:
    _remember(db, op.key)
    db.conn.execute(
        "INSERT INTO kv_state (key, value, updated_at) VALUES (?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        (op.key, op.value, op.at),
    )
    return Applied([])


def _delete_kv(db: CellDb, op: DeleteKv) -> Applied:
    if db.conn.execute("SELECT 1 FROM kv_state WHERE key = ?", (op.key,)).fetchone() is None:
        raise NotFound(f"key {op.key!r} is not set")
    _remember(db, op.key)
    db.conn.execute("DELETE FROM kv_state WHERE key = ?", (op.key,))
    return Applied([])


def _remember(db: CellDb, key: str) -> None:
    """Note what a key was before a write, and after which event: the undo of a restore."""
    db.conn.execute(
        "INSERT INTO cellz_kv_undo (sequence, key, value, updated_at) "
        "SELECT ?, ?, (SELECT value FROM kv_state WHERE key = ?), (SELECT updated_at FROM kv_state WHERE key = ?)",
        (db.sequence, key, key, key),
    )


def _checkpoint(db: CellDb, op: MakeCheckpoint) -> Applied:
    row = (op.id, db.sequence, op.label, op.at)
    db.conn.execute("INSERT INTO checkpoints (id, sequence, label, created_at) VALUES (?, ?, ?, ?)", row)
    db.conn.execute(
        "INSERT INTO cellz_checkpoint_kv SELECT ?, coalesce(max(change), 0) FROM cellz_kv_undo", (op.id,)
    )
    return Applied([], row)


def _target(db: CellDb, op: Rewind) -> tuple[int, int | None]:
    """Return (sequence, kv change) to go back to; raises Failed, Conflict or NotFound."""
    if op.checkpoint_id is None:
        target = op.target or 0
        if not 0 <= target <= db.sequence:
            raise NotFound(f"sequence {target} is beyond the log, which ends at {db.sequence}")
        change = None
    else:
        row = db.conn.execute(
            "SELECT c.sequence, k.change FROM checkpoints c "
            "LEFT JOIN cellz_checkpoint_kv k ON k.checkpoint_id = c.id WHERE c.id = ?",
            (op.checkpoint_id,),
        ).fetchone()
        if row is None:
            # The original's status for this; a client of 0.2.1 may look for it.
            raise Failed(f"Checkpoint {op.checkpoint_id} not found")
        target, change = row
    if target < db.compacted:
        raise Conflict(f"the log was compacted through {db.compacted}, so {target} cannot be restored")
    return target, change


def _rewind(db: CellDb, op: Rewind) -> Applied:
    target, change = _target(db, op)
    branch = db.branch
    go_back(db, target, change)
    db.conn.execute(
        "INSERT INTO cellz_branches (branch, target, last, checkpoint_id, created_at) VALUES (?, ?, ?, ?, ?)",
        (branch, target, db.sequence, op.checkpoint_id, op.at),
    )
    db.place(branch=branch + 1)
    db.sequence = target
    checkpoint = "null" if op.checkpoint_id is None else quote(op.checkpoint_id)
    payload = f'{{"checkpoint_id":{checkpoint},"target_sequence":{target},"branch":{db.branch}}}'
    records = append_events(db, (NewEvent(op.event_id, None, "rewound", payload, op.at),))
    return Applied(records, target, cut=target)


def go_back(db: CellDb, target: int, change: int | None) -> None:
    """Cut the log after `target`, keep the tail as abandoned, and take messages and kv back with it."""
    run = db.conn.execute
    run(
        "DELETE FROM messages WHERE id IN (SELECT id FROM events WHERE sequence > ?)",
        (target,),
    )
    run("INSERT INTO cellz_abandoned SELECT ?, * FROM events WHERE sequence > ?", (db.branch, target))
    run("DELETE FROM events WHERE sequence > ?", (target,))
    # A change noted at `target` was made before the next event, and so belongs to that place of the log.
    undo = run(
        "SELECT change, key, value, updated_at FROM cellz_kv_undo "
        "WHERE CASE WHEN ?1 IS NULL THEN sequence > ?2 ELSE change > ?1 END ORDER BY change DESC",
        (change, target),
    ).fetchall()
    for _, key, value, updated_at in undo:
        if value is None:
            run("DELETE FROM kv_state WHERE key = ?", (key,))
        else:
            run(
                "INSERT OR REPLACE INTO kv_state (key, value, updated_at) VALUES (?, ?, ?)",
                (key, value, updated_at),
            )
    if undo:
        run("DELETE FROM cellz_kv_undo WHERE change >= ?", (undo[-1][0],))
    # A checkpoint made later at the same place of the log, after another kv write, went with that write.
    run(
        "DELETE FROM checkpoints WHERE sequence > ?1 OR id IN "
        "(SELECT checkpoint_id FROM cellz_checkpoint_kv WHERE ?2 IS NOT NULL AND change > ?2)",
        (target, change),
    )
    run("DELETE FROM cellz_checkpoint_kv WHERE checkpoint_id NOT IN (SELECT id FROM checkpoints)")


def _compact(db: CellDb, op: Compact) -> Applied:
    if not db.compacted <= op.through <= db.sequence:
        raise Conflict(
            f"cannot compact through {op.through}: the log has {db.compacted + 1} to {db.sequence}"
        )
    run = db.conn.execute
    run("DELETE FROM events WHERE sequence <= ?", (op.through,))
    run("DELETE FROM cellz_abandoned WHERE sequence <= ?", (op.through,))
    run("DELETE FROM cellz_kv_undo WHERE sequence < ?", (op.through,))
    run("DELETE FROM checkpoints WHERE sequence < ?", (op.through,))
    run("DELETE FROM cellz_checkpoint_kv WHERE checkpoint_id NOT IN (SELECT id FROM checkpoints)")
    db.place(compacted=op.through)
    payload = f'{{"through":{op.through},"branch":{db.branch}}}'
    return Applied(
        append_events(db, (NewEvent(op.event_id, None, "compaction", payload, op.at),)), op.through
    )


def _set_alarm(db: CellDb, op: SetAlarm) -> Applied:
    db.conn.execute(
        "INSERT INTO cellz_alarms (id, kind, spec, next_at, created_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, spec = excluded.spec, next_at = excluded.next_at",
        (op.id, op.kind, op.spec, op.next_at, op.at),
    )
    return _rescheduled(db, Applied([]))


def _cancel_alarm(db: CellDb, op: CancelAlarm) -> Applied:
    if db.conn.execute("DELETE FROM cellz_alarms WHERE id = ?", (op.id,)).rowcount == 0:
        raise NotFound(f"alarm {op.id!r} is not set")
    return _rescheduled(db, Applied([]))


def _fire_alarm(db: CellDb, op: FireAlarm) -> Applied:
    records: list[Record] = []
    event = op.event
    if (
        event is not None
        and db.conn.execute("SELECT 1 FROM events WHERE id = ?", (event.id,)).fetchone() is None
    ):
        records = append_events(db, (event,))
    db.conn.execute(
        "UPDATE cellz_alarms SET next_at = ?, fired = fired + ?, missed = missed + ? WHERE id = ?",
        (op.next_at, len(records), op.missed, op.id),
    )
    return _rescheduled(db, Applied(records))


def _set_metadata(db: CellDb, op: SetMetadata) -> Applied:
    db.conn.execute(
        "UPDATE cell_meta SET metadata = ?, updated_at = ? WHERE id = ?", (op.metadata, op.at, db.cell)
    )
    return Applied([])


_APPLY: dict[type, Callable[[Any, Any], Applied]] = {
    Append: _append,
    Create: _create,
    PutKv: _put_kv,
    DeleteKv: _delete_kv,
    MakeCheckpoint: _checkpoint,
    Rewind: _rewind,
    Compact: _compact,
    SetAlarm: _set_alarm,
    CancelAlarm: _cancel_alarm,
    FireAlarm: _fire_alarm,
    SetMetadata: _set_metadata,
}


def transact(
    db: CellDb, ops: list[Op], ship: Callable[[list[Op]], int] | None = None
) -> list[Applied | CellzError]:
    """Apply ops as one transaction and return one result each, in order.

    A refused op is a CellzError in its place; the others stand. `ship`, if given, is called with the ops
    that stand before the local commit and returns their place in the shared log; what it raises rolls the
    whole group back.
    """
    if len(ops) == 1 and ship is None and not db.clean:
        op = ops[0]
        if type(op) is Append and len(op.events) == 1 and op.events[0].event_type not in ROLES:
            return [_append_alone(db, op.events[0])]
    results: list[Applied | CellzError] = []

    def work() -> None:
        done: list[Op] = []
        for op in ops:
            try:
                results.append(apply_op(db, op))
            except CellzError as refusal:
                results.append(refusal)
            else:
                done.append(op)
        if not done:
            return
        if ship is not None:
            db.place(slot=ship(done))
        elif db.clean:
            db.place(clean=0)

    db.transaction(work)
    return results

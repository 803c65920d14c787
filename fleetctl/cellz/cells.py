"""What concerns a cell as a whole, or several: listing, whether one is known, and forking."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cellz.apply import go_back
from fleetctl.cellz.blobs import retried
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.errors import BadRequest, Conflict, NotFound
from fleetctl.cellz.lifecycle import State
from fleetctl.cellz.node import Node
from fleetctl.cellz.sharedlog import slot_key
from fleetctl.cellz.tenure import lease_key
from fleetctl.cellz.words import CELL_ID, Meta

if TYPE_CHECKING:
    from fleetctl.cellz.resident import Cell


async def list_cells(node: Node) -> list[str]:
    """Return CellMeta as JSON for every cell in this node's data folder."""
    names = await node.pool.io(lambda: _names(node.settings.data_dir))
    found: list[str] = []
    idle: list[str] = []
    for name in names:
        cell = node.cells.get(name)
        if cell is not None and cell.state is State.ACTIVE:
            found.append((await node.read(name, lambda db: db.meta())).json())
        else:
            idle.append(name)
    folder = node.settings.data_dir
    peeked = await node.pool.io(lambda: [peek_meta(name, folder / f"{name}.db") for name in idle])
    return found + [meta.json() for meta in peeked if meta is not None]


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.stem for path in folder.glob("*.db") if CELL_ID.fullmatch(path.stem))


def peek_meta(cell: str, path: Path) -> Meta | None:
    """Return the row of a database that nobody has open here, or None if it cannot be read."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as conn:
            row = conn.execute(
                "SELECT id, name, status, event_sequence, created_at, updated_at, metadata "
                "FROM cell_meta WHERE id = ?",
                (cell,),
            ).fetchone()
    except sqlite3.Error:
        return None
    return Meta(*row) if row else None


async def known(node: Node, cell_id: str) -> bool:
    """Return whether the cell exists anywhere this node can see: here, or in the blob store."""
    cell = node.cells.get(cell_id)
    if cell is not None and cell.state is not State.ABSENT:
        return True
    return await node.pool.io(lambda: cell_file_exists(node, cell_id))


def cell_file_exists(node: Node, cell_id: str) -> bool:
    """Return whether there is a local file, a manifest, a lease or a log for the cell; blocks."""
    if node.restorer.path(cell_id).exists():
        return True
    keys = (f"cells/{cell_id}.meta.json", lease_key(cell_id), slot_key(cell_id, 1))

    def get(key: str) -> Callable[[], object]:
        return lambda: node.blobs.get(key)

    return any(retried(get(key), node.clock.sleep, key) is not None for key in keys)


async def fork(
    node: Node, source: str, target: str, name: str | None, checkpoint: str | None, sequence: int | None
) -> Meta:
    """Make `target` from `source` as it was at a checkpoint or sequence, and return its row.

    The copy is taken in the source's turn; the new cell has its own lease and, before the answer, its own
    snapshot. Raises Conflict when `target` is there, NotFound for a place that is not.
    """
    if source == target:
        raise BadRequest("a cell cannot be forked onto itself")
    await node.active(source)
    if await known(node, target):
        raise Conflict(f"cell '{target}' exists already")
    staged = node.restorer.path(target).with_suffix(".fork.tmp")
    at = node.clock.stamp()
    try:
        await node.read(source, lambda db: _copy_to(db, staged), long=True)
        await node.pool.io(lambda: _turn_back(staged, source, target, name, checkpoint, sequence, at))
        await node.pool.io(lambda: staged.rename(node.restorer.path(target)))
    finally:
        await node.pool.io(lambda: _discard(staged))
    cell: Cell = await node.active(target)
    await node.save(cell, always=True)
    return await node.read(target, lambda db: db.meta())


def _copy_to(db: CellDb, staged: Path) -> None:
    _discard(staged)
    with closing(sqlite3.connect(staged)) as copy:
        db.conn.backup(copy)


def _discard(staged: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{staged}{suffix}").unlink(missing_ok=True)


def _turn_back(
    staged: Path,
    source: str,
    target: str,
    name: str | None,
    checkpoint: str | None,
    sequence: int | None,
    at: str,
) -> None:
    """Cut the copy at the fork, give it its own name, and forget the source's branches and alarms."""
    db = CellDb(source, staged)
    try:
        place, change = _place(db, checkpoint, sequence)

        def work() -> None:
            go_back(db, place, change)
            for table in ("cellz_abandoned", "cellz_branches", "cellz_alarms"):
                db.conn.execute(f"DELETE FROM {table}")  # noqa: S608  (own names)
            db.conn.execute(
                "UPDATE cell_meta SET id = ?, name = coalesce(?, name), event_sequence = ?, created_at = ?, "
                "updated_at = ?, status = 'suspended'",
                (target, name, place, at, at),
            )
            db.place(epoch=0, branch=0, slot=0, clean=0)

        db.transaction(work)
        db.checkpoint()
    finally:
        db.close()


def _place(db: CellDb, checkpoint: str | None, sequence: int | None) -> tuple[int, int | None]:
    if checkpoint is None:
        place = sequence or 0
        if not 0 <= place <= db.sequence:
            raise NotFound(f"sequence {place} is beyond the log, which ends at {db.sequence}")
        change = None
    else:
        row = db.conn.execute(
            "SELECT c.sequence, k.change FROM checkpoints c "
            "LEFT JOIN cellz_checkpoint_kv k ON k.checkpoint_id = c.id WHERE c.id = ?",
            (checkpoint,),
        ).fetchone()
        if row is None:
            raise NotFound(f"Checkpoint {checkpoint} not found")
        place, change = row
    if place < db.compacted:
        raise Conflict(f"the log was compacted through {db.compacted}, so {place} cannot be forked")
    return place, change

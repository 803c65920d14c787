"""Perform the alarms: set, cancel, fire, and find those of cells that are on no node.

The blob store has an index, `alarms/<due second>/<cell>`, so that a listing alone says who is due. The new
entry stands before the cell knows of it and the old one goes afterwards: an entry may be stale, never missing.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial

from fleetctl.cellz import alarms
from fleetctl.cellz.blobs import Busy, Unanswered, retried
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.errors import CellzError
from fleetctl.cellz.lifecycle import State
from fleetctl.cellz.node import Node
from fleetctl.cellz.ops import CancelAlarm, FireAlarm, SetAlarm
from fleetctl.cellz.resident import Cell

log = logging.getLogger("cellz")

# How often resident cells are looked at for due alarms: the most by which one is late here.
TICK_S = 0.1


async def fire_due(node: Node) -> None:
    """Fire what is due in the cells of this node."""
    now = alarms.stamp(node.clock.now())
    for cell_id in [cell for cell, at in node.alarmed.items() if at <= now]:
        cell = node.cells.get(cell_id)
        if cell is not None and cell.state is State.ACTIVE:
            await node.quietly(cell, partial(fire_alarms, node, cell))


async def scan(node: Node) -> None:
    """Bring up cells whose alarms are due and that are on no node; one held elsewhere is only watched."""
    if node.draining:
        return
    horizon = int(node.clock.now().timestamp())
    for key, cell_id in await node.pool.io(lambda: _due_entries(node, horizon)):
        try:
            cell = await node.active(cell_id)
        except CellzError as error:
            log.debug(str(error), extra={"facts": {"cell": cell_id, "code": error.code}})
            continue
        if key != cell.alarm_key:
            await node.pool.io(partial(_drop_key, node, key))


def _due_entries(node: Node, horizon: int) -> list[tuple[str, str]]:
    """Return (key, cell) of the entries due by `horizon`, in seconds since 1970; blocks."""
    found: list[tuple[str, str]] = []
    try:
        for key in node.blobs.keys("alarms/"):
            _, second, cell = key.split("/", 2)
            if int(second) > horizon:
                break
            found.append((key, cell))
    except (Unanswered, Busy, ValueError):
        return found
    return found


async def index_alarm(node: Node, cell: Cell, next_at: str | None) -> None:
    """Make the index say `next_at` for a cell; the new entry stands before the old one goes.

    Raises StoreTrouble when the new entry cannot be written.
    """
    key = alarms.alarm_key(cell.id, next_at)
    old = cell.alarm_key
    if key == old:
        return
    if key:
        await node.pool.io(lambda: retried(lambda: node.blobs.put(key, b""), node.clock.sleep, key))
    cell.alarm_key = key
    if old:
        await node.pool.io(partial(_drop_key, node, old))


def _drop_key(node: Node, key: str) -> None:
    try:
        node.blobs.delete(key)
    except (Unanswered, Busy):
        return


async def set_alarm(node: Node, cell_id: str, alarm: str, spec: alarms.Spec) -> str | None:
    """Set an alarm durably and return when it is due; the index has it before the cell does."""
    now = node.clock.now()
    next_at = alarms.first_due(alarm, spec, now)
    cell = await node.active(cell_id)
    async with cell.alarm_lock:
        earliest = min(filter(None, (cell.next_alarm, next_at)), default=None)
        await index_alarm(node, cell, earliest)
        await node.write(cell_id, SetAlarm(alarm, spec.kind, spec.text(), next_at, alarms.stamp(now)))
        await index_alarm(node, cell, cell.next_alarm)
    return next_at


async def cancel_alarm(node: Node, cell_id: str, alarm: str) -> None:
    """Cancel an alarm; raises NotFound."""
    cell = await node.active(cell_id)
    async with cell.alarm_lock:
        await node.write(cell_id, CancelAlarm(alarm))
        await index_alarm(node, cell, cell.next_alarm)


async def fire_alarms(node: Node, cell: Cell) -> None:
    """Fire what is due in a cell, each under its stable id, and move the index on."""
    now = node.clock.now()
    limit = alarms.stamp(now + timedelta(milliseconds=1))

    def due(db: CellDb) -> list[tuple[str, str, str, str | None, int, int, str]]:
        return [row for row in db.alarms() if row[3] is not None and row[3] <= limit]

    async with cell.alarm_lock:
        for row in await cell.read(due):
            assert row[3] is not None
            firing = alarms.fire(cell.id, row[0], alarms.load_spec(row[2]), row[3], now)
            op = FireAlarm(row[0], firing.event, firing.next_at, firing.missed)
            await cell.write(op)
            node.metrics.alarms_fired += 1
        await index_alarm(node, cell, cell.next_alarm)

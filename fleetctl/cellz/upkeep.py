"""What time brings: renewals, shipping, idle eviction, caps; and the orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from fleetctl.cellz import alarmclock
from fleetctl.cellz.errors import CellzError
from fleetctl.cellz.lifecycle import State
from fleetctl.cellz.node import Node
from fleetctl.cellz.resident import Cell

log = logging.getLogger("cellz")

# Evictions, saves and renewals under way at once: the blob store's threads, and a bound on memory.
_AT_ONCE = 16
# How often caps, idleness and memory are looked at.
_LOOK_EVERY_S = 1.0
# A look at another node's lease is forgotten after this many TTLs without a request.
_FORGET_AFTER_TTLS = 10
# Evictions started by one look over a cap; the next look follows at once if that is not enough.
_EVICTIONS_A_LOOK = 64
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Upkeep:
    """The loops of one node; `start` them on its event loop and `stop` them before it ends."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start every loop."""
        settings = self._node.settings
        loops: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (min(1.0, settings.lease_ttl / 12), self._renew),
            (_LOOK_EVERY_S, self._caps),
            (alarmclock.TICK_S, partial(alarmclock.fire_due, self._node)),
            (settings.alarm_scan, partial(alarmclock.scan, self._node)),
        ]
        if settings.sync.mode == "interval":
            loops.append((settings.sync.interval_s, self._ship))
        self._loops = [self._node.spawn(self._every(period, work)) for period, work in loops]

    async def stop(self) -> None:
        """Stop every loop."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    async def _every(self, period_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(period_s)  # noqa: TID251  (the loop's own pace)
            try:
                await work()
            except CellzError as error:
                log.warning(str(error), extra={"facts": {"code": error.code}})
            except Exception:
                # A loop that ends in silence would let leases lapse and alarms sleep.
                log.exception("upkeep failed and goes on")

    async def _each(self, cells: list[Cell], work: Callable[[Cell], Awaitable[None]]) -> None:
        async def one(cell: Cell) -> None:
            async with self._limit:
                await self._node.quietly(cell, partial(work, cell))

        await asyncio.gather(*(one(cell) for cell in cells))

    async def _renew(self) -> None:
        due = [cell for cell in self._node.cells.values() if cell.tenure.due()]
        await self._each(due, lambda cell: self._node.pool.io(cell.tenure.tick))

    async def _ship(self) -> None:
        node = self._node
        await self._each([cell for cell in node.resident() if cell.pending], node.ship)
        long = node.settings.snapshot_slots
        await self._each(
            [cell for cell in node.resident() if cell.slot - cell.snapshot_slot >= long], node.save
        )

    # -- caps ---------------------------------------------------------------------------------------

    async def _caps(self) -> None:
        node, settings = self._node, self._node.settings
        now = node.clock.monotonic()
        self._forget(now)
        active = [cell for cell in node.cells.values() if cell.state is State.ACTIVE]
        old: list[Cell] = []
        if settings.idle_timeout:
            old = [
                cell for cell in active if now - cell.last_used > settings.idle_timeout and not _watched(cell)
            ]
        over = len(active) - len(old) - settings.max_resident
        if settings.max_memory and resident_bytes() > settings.max_memory:
            over = max(over, min(_EVICTIONS_A_LOOK, len(active) // 4 + 1))
        if over > 0:
            chosen = set(old)
            rest = sorted((cell for cell in active if cell not in chosen), key=lambda cell: cell.last_used)
            old += rest[:over]
        await self._each(old, lambda cell: cell.evict())
        await self._close_handles()

    async def _close_handles(self) -> None:
        node = self._node
        over = len(node.open_cells) - node.settings.max_open
        if over <= 0:
            return
        idle = sorted((c for c in node.open_cells.values() if c.idle()), key=lambda cell: cell.last_used)

        async def close(cell: Cell) -> None:
            await cell.close_handle()
            if cell.db is None:
                node.open_cells.pop(cell.id, None)

        await self._each(idle[:over], close)

    def _forget(self, now: float) -> None:
        node = self._node
        keep_s = node.settings.lease_ttl * _FORGET_AFTER_TTLS
        stale = [
            cell.id
            for cell in node.cells.values()
            if cell.state is State.ABSENT and cell.idle() and now - cell.tenure.standing.look_at > keep_s
        ]
        for cell in stale:
            node.cells.pop(cell, None)

    # -- the end ------------------------------------------------------------------------------------

    async def drain(self, deadline_s: float) -> list[str]:
        """Put every cell down within `deadline_s`; return those that had to stay, with nothing released."""
        node = self._node
        node.draining = True
        until = node.clock.monotonic() + deadline_s
        while (left := until - node.clock.monotonic()) > 0:
            cells = [
                cell for cell in node.cells.values() if cell.state is not State.ABSENT or not cell.idle()
            ]
            cells = [cell for cell in cells if cell.state is not State.QUARANTINED]
            if not cells:
                return []
            try:
                await asyncio.wait_for(self._each(cells, lambda cell: cell.evict()), left)
            except TimeoutError:
                break
            await asyncio.sleep(0.02)  # noqa: TID251  (between rounds over cells in trouble)
        return [cell.id for cell in node.resident()]


def _watched(cell: Cell) -> bool:
    return cell.feed is not None and cell.feed.readers > 0


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES

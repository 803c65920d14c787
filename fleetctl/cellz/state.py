"""What a node says about itself: /health of the original, and /state for whoever manages the fleet."""

from __future__ import annotations

from typing import Any

from fleetctl.cellz.lifecycle import State
from fleetctl.cellz.node import Node
from fleetctl.cellz.upkeep import resident_bytes
from fleetctl.version import __version__

_COMING = (State.ACQUIRING, State.RESTORING)


def health(node: Node) -> dict[str, str]:
    """Return the original's answer of GET /health."""
    return {"status": "ok", "service": "cellz", "version": node.settings.release or __version__}


def state_json(node: Node) -> dict[str, Any]:
    """Return the node's state; `sync.lag_s` is the age of the oldest write that only this machine has."""
    now = node.clock.monotonic()
    resident = node.resident()
    lagging = [cell for cell in resident if cell.pending]
    dirty = sum(1 for cell in resident if cell.db is not None and not cell.db.clean)
    return {
        "service": "cellz",
        "version": node.settings.release or __version__,
        "node": node.node_id,
        "address": node.address,
        "epoch": node.epoch,
        "resident": len(resident),
        "open": len(node.open_cells),
        "restoring": sum(1 for cell in node.cells.values() if cell.state in _COMING),
        "quarantined": sorted(cell.id for cell in node.cells.values() if cell.state is State.QUARANTINED),
        "draining": node.draining,
        "readers": node.metrics.readers,
        "memory_bytes": resident_bytes(),
        "sync": {
            "mode": str(node.settings.sync),
            "loss_window": node.settings.sync.loss_window,
            "lag_s": round(max((now - cell.pending_since for cell in lagging), default=0.0), 3),
            "cells_behind": dirty,
        },
    }

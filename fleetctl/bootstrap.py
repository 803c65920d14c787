"""The composition root: what the commands are handed, made from settings. The only module that names concrete stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from executors.clock import Clock
from fleetctl.settings import Settings

if TYPE_CHECKING:
    from fleetctl.ledger.ports import Store
    from fleetctl.ledger.replay import Replayed

STATE_FILE = "state.db"


def open_store(settings: Settings, clock: Clock, *, read_only: bool) -> Store:
    """The state of these settings. Read-only: creates nothing, and an absent one is empty. Raises StateError."""
    from fleetctl.stores.processes import SystemProcesses
    from fleetctl.stores.sqlite import SqliteStore

    return SqliteStore(settings.state / STATE_FILE, clock, SystemProcesses(), read_only=read_only)


def replayed(store: Store, fleets: Iterable[str]) -> dict[str, Replayed]:
    """What the state tells of these fleets, by name. Raises StateError."""
    from fleetctl.ledger.replay import replay

    return {fleet: replay(fleet, store.read(fleet)) for fleet in fleets}

"""The store in memory, under the suite that all stores pass."""

from __future__ import annotations

import pytest

from fleetctl.ledger.ports import Store
from fleetctl.stores.memory import MemoryStore
from tests.stores.conformance import Conformance, HandClock, HandProcesses


class TestMemory(Conformance):
    @pytest.fixture(autouse=True)
    def _fresh(self) -> None:
        self.made: MemoryStore | None = None

    def make(self, clock: HandClock, processes: HandProcesses) -> Store:
        if self.made is None:
            self.made = MemoryStore(clock, processes)
        return self.made

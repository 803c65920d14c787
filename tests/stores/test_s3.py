"""The S3 store under the suite that all stores pass, over a real HTTP server."""

from __future__ import annotations

from itertools import count

import pytest

from fleetctl.ledger.ports import Store
from fleetctl.stores.s3 import S3Store
from fleetctl.stores.s3_bucket import Place
from tests.lab.s3 import S3
from tests.stores.conformance import Conformance, HandClock, HandProcesses

PREFIXES = count(1)


class TestS3(Conformance):
    @pytest.fixture(autouse=True)
    def _fresh(self, s3_states: S3) -> None:
        self.place = Place("states", f"team/{next(PREFIXES)}", s3_states.endpoint)

    def make(self, clock: HandClock, processes: HandProcesses) -> Store:
        return S3Store(self.place, clock, processes)

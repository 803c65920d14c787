"""One engine over one store and one world, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from executors.clock import SystemClock
from fleetctl.engine.apply import Engine, Result, apply
from fleetctl.engine.events import Report
from fleetctl.ledger.ports import Store
from fleetctl.ledger.replay import Replayed, replay
from fleetctl.stores.memory import MemoryStore
from fleetctl.stores.processes import SystemProcesses, this_process
from planner.plan import Plan
from planner.recorded import Recorded
from tests.engine.plans import FLEET
from tests.engine.world import World, fetch, no_secrets

CLOCK = SystemClock()
PROCESSES = SystemProcesses()


@dataclass
class Watcher:
    reports: list[Report] = field(default_factory=list)

    def on_report(self, fleet: str, report: Report) -> None:
        self.reports.append(report)

    def text(self) -> str:
        return "\n".join(f"{r.kind} {r.node}: {r.text}" for r in self.reports)


@dataclass
class Room:
    store: Store
    world: World
    watcher: Watcher

    @property
    def engine(self) -> Engine:
        return Engine(
            store=self.store,
            drivers=self.world.driver,
            fetch=fetch,
            resolve=no_secrets,
            clock=CLOCK,
            holder=this_process(PROCESSES, run="", who="tester", command=""),
            observer=self.watcher,
        )

    def replayed(self) -> Replayed:
        return replay(FLEET, self.store.read(FLEET))

    @property
    def recorded(self) -> Recorded:
        return self.replayed().recorded

    def apply(self, plan: Plan, **changes: object) -> Result:
        return apply(plan, replace(self.engine, **changes))  # type: ignore[arg-type]


def made(store: Store) -> Iterator[Room]:
    yield Room(store, World(), Watcher())
    store.close()


@pytest.fixture
def room() -> Iterator[Room]:
    yield from made(MemoryStore(CLOCK, PROCESSES))

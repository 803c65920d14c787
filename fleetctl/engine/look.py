"""The fresh look at a fleet's places, through the drivers that the run holds open anyway."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from executors.clock import Clock
from executors.command import Hear
from executors.driver import Driver, ProbeResult, ProbeTarget, Reader
from executors.inventory import Place, observe
from fleetctl.engine.hands import Observe
from manifests.errors import FleetctlError
from planner.observed import ObservedHost, Snapshot
from planner.spec import NodeSpec


class Kept:
    """A reader whose connection outlives the look."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        return self._reader.observe(fleets)

    def probe(self, target: ProbeTarget) -> ProbeResult:
        return self._reader.probe(target)

    def logs(self, uid: str, lines: int) -> str:
        return self._reader.logs(uid, lines)

    def follow(self, uid: str, lines: int, hear: Hear) -> None:
        self._reader.follow(uid, lines, hear)

    def close(self) -> None:
        """Left open."""


def through(clock: Clock, parallel: int) -> Observe:
    """An `Observe` that asks all places in parallel, `parallel` at once."""

    def look(
        readers: Mapping[tuple[str, str], Driver | FleetctlError], fleet: str, specs: Mapping[str, NodeSpec]
    ) -> Snapshot:
        places = [Place(host, substrate, _opener(r)) for (host, substrate), r in readers.items()]
        return observe(places, clock=clock, fleets=frozenset({fleet}), specs=specs, parallel=parallel)

    return look


def _opener(reader: Driver | FleetctlError) -> Callable[[], Reader]:
    def open_reader() -> Reader:
        if isinstance(reader, FleetctlError):
            raise reader
        return Kept(reader)

    return open_reader

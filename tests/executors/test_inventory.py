"""Inventory asks everybody at once, waits for nobody for ever, and always gives the same order."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from executors import inventory
from executors.clock import SystemClock
from executors.driver import DriverError, ProbeResult, ProbeTarget, Reader
from executors.inventory import Place
from executors.simulated.world import SimulatedWorld
from planner.observed import HealthState, ObservedHost
from planner.plan import StepKind
from tests.executors.places import SECRETS, SimulatedPlace, operation


class FixedClock(SystemClock):
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Quiet:
    """A reader whose host has no nodes; `observe` calls `when` first."""

    def __init__(self, name: str, when: object = None) -> None:
        self.name = name
        self.when = when
        self.closed = False

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        if callable(self.when):
            self.when()
        return ObservedHost(name=self.name, substrate="host", reachable=True)

    def probe(self, target: ProbeTarget) -> ProbeResult:
        raise AssertionError("nothing runs here")

    def logs(self, uid: str, lines: int) -> str:
        return ""

    def close(self) -> None:
        self.closed = True


def place(name: str, reader: Reader) -> Place:
    return Place(name, "host", lambda: reader)


def test_hosts_come_in_order_with_the_time_of_the_clock() -> None:
    readers = {name: Quiet(name) for name in ("c", "a", "b")}
    snapshot = inventory.observe([place(n, r) for n, r in readers.items()], clock=FixedClock())
    assert [h.name for h in snapshot.hosts] == ["a", "b", "c"]
    assert snapshot.taken_at == "2026-01-02T03:04:05.000Z"
    assert all(r.closed for r in readers.values())


def test_no_place_gives_an_empty_snapshot() -> None:
    assert inventory.observe([], clock=FixedClock()).hosts == ()


def test_hosts_are_asked_at_the_same_time_and_never_more_than_allowed() -> None:
    """Three hosts that each wait for the other two: one after another would never end."""
    barrier = threading.Barrier(3, timeout=20)
    snapshot = inventory.observe(
        [place(f"h{n}", Quiet(f"h{n}", barrier.wait)) for n in range(3)], clock=FixedClock(), parallel=3
    )
    assert all(h.reachable for h in snapshot.hosts)
    inside, most, lock = 0, 0, threading.Lock()

    def visit() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.01)
        with lock:
            inside -= 1

    inventory.observe(
        [place(f"h{n}", Quiet(f"h{n}", visit)) for n in range(12)], clock=FixedClock(), parallel=2
    )
    assert most == 2


def test_a_host_that_fails_or_hangs_is_reported_and_hides_nobody() -> None:
    release = threading.Event()

    def refuse() -> None:
        raise DriverError("no such engine")

    def unmade() -> Reader:
        raise DriverError("no key to this host")

    try:
        snapshot = inventory.observe(
            [
                place("fine", Quiet("fine")),
                place("hangs", Quiet("hangs", release.wait)),
                place("refuses", Quiet("refuses", refuse)),
                Place("unmade", "host", unmade),
            ],
            clock=SystemClock(),
            deadline_s=0.5,
        )
    finally:
        release.set()
    by_name = {h.name: h for h in snapshot.hosts}
    assert by_name["fine"].reachable
    assert {n: by_name[n].error for n in ("hangs", "refuses", "unmade")} == {
        "hangs": "no answer within 0.5 s",
        "refuses": "no such engine",
        "unmade": "no key to this host",
    }
    assert not any(by_name[n].reachable for n in ("hangs", "refuses", "unmade"))


def test_running_nodes_are_probed_when_their_spec_is_known() -> None:
    simulated = SimulatedPlace()
    world: SimulatedWorld = simulated.world
    specs = {}
    for uid, version in (("a", "1.0.0"), ("b", "2.0.0"), ("c", "1.0.0"), ("d", "1.0.0")):
        specs[uid] = simulated.spec(uid, version=version)
        simulated.driver().perform(operation(StepKind.CREATE, uid, specs[uid]), SECRETS)
        if uid != "c":
            simulated.driver().perform(operation(StepKind.START, uid, specs[uid]), SECRETS)
    world.never_healthy.add("2.0.0")
    del specs["d"]
    snapshot = inventory.observe(
        [Place("h1", "host", lambda: world.driver("h1"))], clock=FixedClock(), specs=specs
    )
    health = {n.uid: n.health for n in snapshot.hosts[0].nodes}
    assert health == {
        "a": HealthState.PASSING,
        "b": HealthState.FAILING,
        "c": HealthState.UNKNOWN,
        "d": HealthState.UNKNOWN,
    }

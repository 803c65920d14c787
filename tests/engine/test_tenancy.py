"""The leases of one command are kept together, those of the fleets that wait for their turn too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executors.clock import SystemClock
from fleetctl.engine.tenancy import LEASE_TTL_S, Tenancy
from fleetctl.ledger.ports import Lease, LeaseHeld, LeaseLost, StateError
from fleetctl.stores.memory import MemoryStore
from fleetctl.stores.processes import SystemProcesses, this_process

PROCESSES = SystemProcesses()
US = this_process(PROCESSES, run="ours", who="us", command="apply")
ELSEWHERE = replace(US, boot_id="another machine", run="theirs", who="they")


class Hours(SystemClock):
    """A clock that is set by hand."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Elsewhere(SystemProcesses):
    def machine(self) -> str:
        return "another machine"


@pytest.fixture
def clock() -> Hours:
    return Hours()


@pytest.fixture
def store(clock: Hours) -> MemoryStore:
    return MemoryStore(clock, Elsewhere())


def test_a_fleet_that_waits_for_hours_is_not_taken_by_somebody_elsewhere(
    clock: Hours, store: MemoryStore
) -> None:
    tenancy = Tenancy(store, clock)
    for fleet in ("first", "second"):
        tenancy.acquire(fleet, US)
    for _ in range(600):
        clock.now_s += LEASE_TTL_S / 5
        tenancy.keep("first")
        for fleet in ("first", "second"):
            with pytest.raises(LeaseHeld):
                store.acquire(fleet, ELSEWHERE, LEASE_TTL_S)
    for fleet in ("first", "second"):
        store.check(tenancy.of(fleet))
    tenancy.give_back()
    assert [store.current(fleet) for fleet in ("first", "second")] == [None, None]


def test_a_lease_lost_while_its_fleet_waits_stops_nobody_else(clock: Hours, store: MemoryStore) -> None:
    tenancy = Tenancy(store, clock)
    for fleet in ("first", "second"):
        tenancy.acquire(fleet, US)
    store.unlock("second", tenancy.of("second").lease_id)
    clock.now_s += LEASE_TTL_S / 2
    tenancy.keep("first")
    clock.now_s += LEASE_TTL_S / 2
    with pytest.raises(LeaseLost):
        tenancy.keep("second")
    tenancy.give_back()
    assert store.current("first") is None


def test_trouble_with_the_lease_of_a_fleet_that_waits_does_not_cut_off_another(
    clock: Hours, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenancy = Tenancy(store, clock)
    for fleet in ("first", "second"):
        tenancy.acquire(fleet, US)
    asked: list[str] = []
    renew = store.renew

    def troubled(lease: Lease) -> Lease:
        asked.append(lease.fleet)
        if lease.fleet == "first":
            raise StateError("no answer")
        return renew(lease)

    monkeypatch.setattr(store, "renew", troubled)
    clock.now_s += LEASE_TTL_S / 2
    tenancy.keep("second")
    assert asked == ["second", "first"], "the fleet under way comes first"
    clock.now_s += LEASE_TTL_S / 2
    with pytest.raises(StateError):
        tenancy.keep("first")


def test_a_fleet_whose_part_is_over_is_free_for_others(clock: Hours, store: MemoryStore) -> None:
    tenancy = Tenancy(store, clock)
    for fleet in ("first", "second"):
        tenancy.acquire(fleet, US)
    tenancy.end("first")
    assert store.acquire("first", ELSEWHERE, LEASE_TTL_S).epoch == 2
    tenancy.give_back()
    assert store.current("first") is not None

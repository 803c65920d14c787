"""What every store must do, whoever keeps the bytes. Subclass it, give `make`, and all of it is tested."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from fleetctl.ledger import entries
from fleetctl.ledger.entries import Body, Context, seal
from fleetctl.ledger.ports import (
    Head,
    Holder,
    JournalConflict,
    LeaseHeld,
    LeaseLost,
    StateError,
    Store,
)

FLEET = "edge"
TTL_S = 20.0


class HandClock:
    """A clock that a test sets. The wall clock is apart from the monotonic one."""

    def __init__(self) -> None:
        self.at_s = 100.0
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)
        self._ids = count(1)

    def now(self) -> datetime:
        return self.wall + timedelta(seconds=self.at_s)

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, duration_s: float) -> None:
        self.at_s += duration_s

    def new_id(self) -> str:
        return f"{next(self._ids):032x}"


class HandProcesses:
    """One machine (`name`) and who is alive on it."""

    def __init__(self, name: str = "here") -> None:
        self.name = name
        self.alive: dict[int, int] = {1: 11, 2: 22}

    def machine(self) -> str:
        return self.name

    def started(self, pid: int) -> int | None:
        return self.alive.get(pid)


def holder(run: str = "r1", machine: str = "here", pid: int = 1, started: int = 11) -> Holder:
    return Holder(run, "somebody", "apply", machine, machine, pid, started)


class Conformance:
    """The suite. `make(clock, processes)` gives a store on the same state each time it is called."""

    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def processes(self) -> HandProcesses:
        return HandProcesses()

    @pytest.fixture
    def store(self, clock: HandClock, processes: HandProcesses) -> Iterator[Store]:
        store = self.make(clock, processes)
        store.initialise()
        yield store
        store.close()

    def make(self, clock: HandClock, processes: HandProcesses) -> Store:
        raise NotImplementedError

    # --- journal -------------------------------------------------------------------------------------

    def sealed(self, head: Head, n: int = 1, text: str = "") -> list[Body]:
        bodies = [entries.control("note", "me", text=text, n=i) for i in range(n)]
        return seal(bodies, Context(FLEET, "l1", "r1", 1), head, "2026-01-01T00:00:00.000Z")

    def test_a_fleet_without_entries_has_an_empty_head(self, store: Store) -> None:
        assert store.head(FLEET) == Head()
        assert list(store.read(FLEET)) == []
        assert list(store.fleets()) == []

    def test_entries_come_back_in_order_and_from_any_place(self, store: Store) -> None:
        head = store.append(FLEET, 0, self.sealed(Head(), 3), 1)
        head = store.append(FLEET, 3, self.sealed(head, 2), 1)
        assert (head.sequence, head.lineage) == (5, "l1")
        assert store.head(FLEET) == head
        assert [e["sequence"] for e in store.read(FLEET)] == [1, 2, 3, 4, 5]
        assert [e["sequence"] for e in store.read(FLEET, 3)] == [4, 5]
        assert list(store.read(FLEET, 5)) == []
        assert list(store.fleets()) == [FLEET]

    def test_what_is_not_ascii_is_kept(self, store: Store) -> None:
        store.append(FLEET, 0, self.sealed(Head(), text="Größe \U0001f600 דּ"), 1)
        assert next(iter(store.read(FLEET)))["text"] == "Größe \U0001f600 דּ"

    def test_an_append_at_a_taken_position_is_a_conflict_and_changes_nothing(self, store: Store) -> None:
        first = store.append(FLEET, 0, self.sealed(Head()), 1)
        with pytest.raises(JournalConflict):
            store.append(FLEET, 0, self.sealed(Head(), 2), 1)
        with pytest.raises(JournalConflict):
            store.append(FLEET, 7, self.sealed(first), 1)
        assert store.head(FLEET) == first

    def test_of_many_racing_writers_each_position_goes_to_one(
        self, store: Store, clock: HandClock, processes: HandProcesses
    ) -> None:
        """20 threads over two handles append until each has succeeded 5 times."""
        other = self.make(clock, processes)
        won: list[int] = []

        def write(mine: Store) -> None:
            done = 0
            while done < 5:
                head = mine.head(FLEET)
                try:
                    won.append(mine.append(FLEET, head.sequence, self.sealed(head), 1).sequence)
                    done += 1
                except JournalConflict:
                    continue

        threads = [threading.Thread(target=write, args=(store if n % 2 else other,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == list(range(1, 101))
        assert len(list(store.read(FLEET))) == 100
        other.close()

    # --- leases --------------------------------------------------------------------------------------

    def test_a_lease_is_held_by_one_and_the_other_is_told_by_whom(self, store: Store) -> None:
        lease = store.acquire(FLEET, holder(), TTL_S)
        assert store.current(FLEET) == lease
        with pytest.raises(
            LeaseHeld, match=r"run r1 \(apply\) of somebody on here, process 1, since 2026"
        ) as refused:
            store.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S)
        assert f"fleetctl unlock {FLEET} --id {lease.lease_id}" in refused.value.hint
        assert store.current(FLEET) == lease

    def test_leases_of_other_fleets_are_apart(self, store: Store) -> None:
        store.acquire(FLEET, holder(), TTL_S)
        assert store.acquire("core", holder("r2"), TTL_S).epoch == 1

    def test_the_epoch_grows_with_every_acquisition_and_survives_release(self, store: Store) -> None:
        epochs = []
        for _ in range(3):
            lease = store.acquire(FLEET, holder(), TTL_S)
            epochs.append(lease.epoch)
            store.release(lease)
            assert store.current(FLEET) is None
        assert epochs == [1, 2, 3]

    def test_a_released_lease_is_not_renewed_and_not_released_again(self, store: Store) -> None:
        lease = store.acquire(FLEET, holder(), TTL_S)
        store.release(lease)
        newer = store.acquire(FLEET, holder("r2"), TTL_S)
        store.release(lease)
        assert store.current(FLEET) == newer
        with pytest.raises(LeaseLost):
            store.renew(lease)
        with pytest.raises(LeaseLost):
            store.check(lease)
        store.check(newer)

    def test_a_renewed_lease_stays_the_same_one(self, store: Store, clock: HandClock) -> None:
        lease = store.acquire(FLEET, holder(), TTL_S)
        clock.at_s += 5
        renewed = store.renew(lease)
        assert replace(renewed, renewed_at=lease.renewed_at) == lease
        assert renewed.renewed_at > lease.renewed_at
        store.check(lease)

    def test_a_dead_holder_on_this_machine_is_replaced_at_once(
        self, store: Store, processes: HandProcesses
    ) -> None:
        store.acquire(FLEET, holder(pid=1), TTL_S)
        del processes.alive[1]
        assert store.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S).epoch == 2

    def test_a_recycled_pid_is_a_dead_holder(self, store: Store, processes: HandProcesses) -> None:
        store.acquire(FLEET, holder(pid=1), TTL_S)
        processes.alive[1] = 999
        assert store.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S).epoch == 2

    def test_a_living_holder_on_this_machine_is_never_replaced(self, store: Store, clock: HandClock) -> None:
        """It may have been stopped for hours: its life can be seen, so no clock decides."""
        store.acquire(FLEET, holder(pid=1), TTL_S)
        for _ in range(5):
            clock.at_s += 10 * TTL_S
            with pytest.raises(LeaseHeld):
                store.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S)

    def test_a_holder_elsewhere_is_replaced_when_it_was_silent_for_its_ttl_as_seen_from_here(
        self, store: Store, clock: HandClock
    ) -> None:
        store.acquire(FLEET, holder(machine="elsewhere", pid=77), TTL_S)
        clock.at_s += 1000  # nobody was looking
        for wait_s in (0, TTL_S - 1):
            clock.at_s += wait_s
            with pytest.raises(LeaseHeld):
                store.acquire(FLEET, holder("r2"), TTL_S)
        clock.at_s += 1
        assert store.acquire(FLEET, holder("r2"), TTL_S).epoch == 2

    def test_a_holder_elsewhere_that_renews_is_not_replaced(self, store: Store, clock: HandClock) -> None:
        lease = store.acquire(FLEET, holder(machine="elsewhere", pid=77), TTL_S)
        for _ in range(6):
            with pytest.raises(LeaseHeld):
                store.acquire(FLEET, holder("r2"), TTL_S)
            clock.at_s += TTL_S - 1
            lease = store.renew(lease)

    @pytest.mark.parametrize("jump_h", [-1, 1])
    def test_wall_clocks_that_differ_or_jump_decide_nothing(
        self, store: Store, clock: HandClock, jump_h: int
    ) -> None:
        """Q8: no expiry is written with one clock and read with another."""
        store.acquire(FLEET, holder(machine="elsewhere", pid=77), TTL_S)
        with pytest.raises(LeaseHeld):
            store.acquire(FLEET, holder("r2"), TTL_S)
        clock.wall += timedelta(hours=jump_h)
        clock.at_s += TTL_S - 1
        with pytest.raises(LeaseHeld):
            store.acquire(FLEET, holder("r2"), TTL_S)

    def test_what_another_machine_saw_does_not_count_here(
        self, store: Store, clock: HandClock, processes: HandProcesses
    ) -> None:
        store.acquire(FLEET, holder(machine="elsewhere", pid=77), TTL_S)
        processes.name = "a third"
        with pytest.raises(LeaseHeld):
            store.acquire(FLEET, holder("r3", machine="a third"), TTL_S)
        clock.at_s += TTL_S + 1
        processes.name = "here"
        with pytest.raises(LeaseHeld):
            store.acquire(FLEET, holder("r2"), TTL_S)

    def test_an_older_epoch_appends_nothing(self, store: Store) -> None:
        lease = store.acquire(FLEET, holder(), TTL_S)
        head = store.append(FLEET, 0, self.sealed(Head()), lease.epoch)
        store.release(lease)
        newer = store.acquire(FLEET, holder("r2"), TTL_S)
        with pytest.raises(LeaseLost, match=r"epoch 1 .* is fenced: epoch 2"):
            store.append(FLEET, 1, self.sealed(head), lease.epoch)
        assert store.head(FLEET) == head
        store.append(FLEET, 1, self.sealed(head), newer.epoch)

    def test_unlock_needs_the_locks_id_and_fences_its_holder(self, store: Store) -> None:
        lease = store.acquire(FLEET, holder(), TTL_S)
        head = store.append(FLEET, 0, self.sealed(Head()), lease.epoch)
        with pytest.raises(StateError, match="is not wrong"):
            store.unlock(FLEET, "wrong")
        store.check(lease)
        assert store.unlock(FLEET, lease.lease_id).holder == lease.holder
        assert store.current(FLEET) is None
        with pytest.raises(LeaseLost):
            store.check(lease)
        with pytest.raises(LeaseLost):
            store.append(FLEET, 1, self.sealed(head), lease.epoch)
        assert store.acquire(FLEET, holder("r2"), TTL_S).epoch == 3
        with pytest.raises(StateError):
            store.unlock("nobody", lease.lease_id)

    def test_of_many_racing_for_a_lease_one_gets_it(
        self, store: Store, clock: HandClock, processes: HandProcesses
    ) -> None:
        other = self.make(clock, processes)
        got: list[int] = []
        refused: list[int] = []

        def take(n: int) -> None:
            try:
                got.append((store if n % 2 else other).acquire(FLEET, holder(f"r{n}"), TTL_S).epoch)
            except LeaseHeld:
                refused.append(n)

        threads = [threading.Thread(target=take, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (got, len(refused)) == ([1], 11)
        other.close()

    def test_an_epoch_is_above_that_of_every_entry(self, store: Store) -> None:
        """In a state that was brought here from elsewhere, the entries are older than the lease."""
        bodies = [entries.control("note", "me")]
        sealed = seal(bodies, Context(FLEET, "l1", "r1", 41), Head(), "2026-01-01T00:00:00.000Z")
        store.append(FLEET, 0, sealed, 41)
        assert store.acquire(FLEET, holder(), TTL_S).epoch == 42

    # --- documents and key ---------------------------------------------------------------------------

    def test_a_document_is_found_by_its_pin(self, store: Store) -> None:
        digest = store.put(b"plan\n")
        assert digest == "sha256:" + hashlib.sha256(b"plan\n").hexdigest()
        assert store.put(b"plan\n") == digest
        assert store.get(digest) == b"plan\n"

    def test_a_document_that_is_not_there_is_an_error(self, store: Store) -> None:
        with pytest.raises(StateError, match="no document"):
            store.get("sha256:" + "0" * 64)

    def test_the_key_is_made_once(self, store: Store, clock: HandClock, processes: HandProcesses) -> None:
        key = store.secrets_key()
        assert key is not None
        assert len(key) == 32
        store.initialise()
        store.initialise(b"another key of thirty-two bytes!")
        again = self.make(clock, processes)
        assert again.secrets_key() == key
        again.close()
        assert store.secrets_key() == key

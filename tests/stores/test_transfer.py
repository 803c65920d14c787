"""A state moved to another store is the same state: entries, key, plans, epochs; and only one of them goes on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.ports import Head, LeaseHeld, StateError, Store
from fleetctl.stores import transfer, upkeep
from fleetctl.stores.s3 import S3Store
from fleetctl.stores.s3_bucket import Place
from fleetctl.stores.sqlite import SqliteStore
from tests.lab.s3 import S3
from tests.stores.conformance import FLEET, TTL_S, HandClock, HandProcesses, holder

PREFIXES = count(1)
CLOCK, PROCESSES = HandClock(), HandProcesses()
Make = Callable[[], Store]


@pytest.fixture
def bucket(s3_states: S3) -> Make:
    place = Place("states", f"transfer/{next(PREFIXES)}", s3_states.endpoint)

    def make() -> Store:
        store = S3Store(place, CLOCK, PROCESSES)
        store._probed = True
        return store

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Make:
    return lambda: SqliteStore(tmp_path / "s" / "state.db", CLOCK, PROCESSES)


@pytest.fixture(params=["folder to bucket", "bucket to folder"])
def pair(request: pytest.FixtureRequest, folder: Make, bucket: Make) -> tuple[Store, Store]:
    a, b = folder(), bucket()
    return (a, b) if request.param == "folder to bucket" else (b, a)


def write(store: Store, n: int, epoch: int) -> Head:
    head = store.head(FLEET)
    for _ in range(n):
        document = store.put(f"plan {head.sequence}".encode())
        body = entries.run_started(plan_id="p", document=document, command="apply", who="me")
        context = Context(FLEET, "l1", f"r{head.sequence}", epoch)
        done = entries.run_finished("succeeded", 0, "done")
        sealed = seal([body, done], context, head, "2026-01-01T00:00:00.000Z")
        head = store.append(FLEET, head.sequence, sealed, epoch)
    return head


def filled(store: Store, runs: int = 3) -> Head:
    store.initialise()
    head = Head()
    for _ in range(runs):
        lease = store.acquire(FLEET, holder(), TTL_S)
        head = write(store, 1, lease.epoch)
        store.release(lease)
    return head


def move(source: Store, target: Store) -> list[transfer.Copied]:
    still_here = transfer.not_moved(source, target.describe())
    with transfer.holding(source, still_here, holder()):
        copied = transfer.copy(source, target, holder())
    transfer.leave(source, copied, holder(), target.describe())
    return copied


def test_a_moved_state_is_the_same_one(pair: tuple[Store, Store]) -> None:
    source, target = pair
    head = filled(source)
    (copied,) = move(source, target)
    assert (copied.entries, copied.documents, copied.head) == (6, 3, head)
    assert list(target.read(FLEET)) == list(source.read(FLEET))
    assert target.secrets_key() == source.secrets_key()
    assert upkeep.verify(target, [FLEET])[0].problems == ()
    # Hosts have seen epoch 3, so the next one is above it.
    assert target.acquire(FLEET, holder(), TTL_S).epoch == 4


def test_the_old_place_can_be_read_and_says_where_the_state_went(pair: tuple[Store, Store]) -> None:
    source, target = pair
    filled(source)
    move(source, target)
    with pytest.raises(LeaseHeld, match="closed here: the state was moved to") as caught:
        source.acquire(FLEET, holder("r9"), TTL_S)
    assert target.describe() in caught.value.message
    CLOCK.at_s += 10**9
    with pytest.raises(LeaseHeld):
        source.acquire(FLEET, holder("r9"), TTL_S)
    assert len(list(source.read(FLEET))) == 6
    with pytest.raises(StateError, match="was moved to"):
        move(source, target)


def test_a_state_can_be_moved_back_with_what_it_has_become(pair: tuple[Store, Store]) -> None:
    source, target = pair
    filled(source)
    move(source, target)
    lease = target.acquire(FLEET, holder(), TTL_S)
    head = write(target, 2, lease.epoch)
    target.release(lease)
    (copied,) = move(target, source)
    assert (copied.entries, copied.head) == (4, head)
    assert source.acquire(FLEET, holder(), TTL_S).epoch > lease.epoch
    with pytest.raises(LeaseHeld, match="moved to"):
        target.acquire(FLEET, holder(), TTL_S)


def test_a_copy_that_was_cut_off_goes_on(folder: Make, bucket: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = folder(), bucket()
    filled(source, 5)
    monkeypatch.setattr(transfer, "BATCH_ENTRIES", 2)
    real, done = target.append, count(1)

    def dies(*args: object) -> Head:
        if next(done) > 3:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(target, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        move(source, target)
    (copied,) = move(folder(), bucket())
    assert (copied.entries, copied.head.sequence) == (4, 10)


def test_a_place_that_holds_another_state_is_refused_and_not_touched(pair: tuple[Store, Store]) -> None:
    source, target = pair
    filled(source)
    head = filled(target, 1)
    with pytest.raises(transfer.OtherState, match="is not empty"):
        move(source, target)
    assert target.head(FLEET) == head
    assert source.acquire(FLEET, holder(), TTL_S).epoch > 3, "the source stays open"


def test_nothing_is_not_a_state(folder: Make, bucket: Make) -> None:
    with pytest.raises(StateError, match="there is no state"):
        transfer.copy(folder(), bucket(), holder())


def test_a_source_that_somebody_wrote_to_meanwhile_is_not_closed(folder: Make, bucket: Make) -> None:
    source, target = folder(), bucket()
    filled(source)
    copied = transfer.copy(source, target, holder())
    lease = source.acquire(FLEET, holder(), TTL_S)
    write(source, 1, lease.epoch)
    source.release(lease)
    with pytest.raises(StateError, match="was changed while"):
        transfer.leave(source, copied, holder(), "there")
    assert source.current(FLEET) is None


def test_a_restored_state_is_far_above_every_epoch_that_was_seen_since(folder: Make, bucket: Make) -> None:
    backup, target = folder(), bucket()
    filled(backup)
    copied = transfer.copy(backup, target, holder())
    transfer.mark_restored(target, copied, holder(), CLOCK, "b.db")
    last = list(target.read(FLEET))[-1]
    assert (last["verb"], last["source"], last["entries"]) == ("restored", "b.db", 6)
    assert target.acquire(FLEET, holder(), TTL_S).epoch > transfer.RESTORE_EPOCHS
    assert upkeep.verify(target, [FLEET])[0].problems == ()


def test_verify_tells_what_is_missing(bucket: Make) -> None:
    store = bucket()
    filled(store)
    assert isinstance(store, S3Store)
    store._bucket.delete("state.json")
    store._bucket.delete(store._bucket.listing("documents/")[0].name)
    problems = " ".join(upkeep.verify(bucket(), [FLEET])[0].problems)
    assert "no document" in problems
    assert "the key" in problems

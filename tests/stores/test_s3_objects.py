"""What lies in the bucket: damage is found at its place, compaction drops nothing, a bad store is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import count

import pytest

from fleetctl.ledger.ports import Head, LeaseHeld, StateError
from fleetctl.stores import s3_objects as objects
from fleetctl.stores.judgement import Row
from fleetctl.stores.s3 import S3Store
from fleetctl.stores.s3_bucket import Place
from fleetctl.stores.s3_objects import Slot
from tests.lab.s3 import S3
from tests.stores import s3_faults as f
from tests.stores.conformance import FLEET, TTL_S, HandClock, HandProcesses, holder
from tests.stores.test_sqlite import append

PREFIXES = count(1)


@pytest.fixture
def place(s3_states: S3) -> Place:
    return Place("states", f"objects/{next(PREFIXES)}", s3_states.endpoint)


def opened(place: Place, *, read_only: bool = False, probed: bool = True) -> S3Store:
    """A store on the place; `probed` spares the requests of the probe, which has its own tests."""
    store = S3Store(place, HandClock(), HandProcesses(), read_only=read_only)
    store._probed = probed
    return store


def filled(place: Place, n: int) -> S3Store:
    store = opened(place)
    store.initialise()
    lease = store.acquire(FLEET, holder(), TTL_S)
    head = store.head(FLEET)
    for _ in range(n):
        head = append(store, head)
    store.release(lease)
    return store


def names(store: S3Store, part: str) -> list[str]:
    return [o.name for o in store._bucket.listing(part)]


# --- compaction -----------------------------------------------------------------------------------------


def test_compacting_keeps_every_entry_and_its_chain(place: Place) -> None:
    store = filled(place, 12)
    before = list(store.read(FLEET))
    done = store.compact(FLEET)
    assert (done.sealed, done.segments, done.entries) == (13, 1, 12)
    fresh = opened(place)
    assert list(fresh.read(FLEET)) == before
    assert fresh.problems(FLEET) == []
    head = fresh.head(FLEET)
    for _ in range(9):
        head = append(fresh, head)
    assert fresh.compact(FLEET).segments == 2
    assert [e["sequence"] for e in opened(place).read(FLEET)] == list(range(1, 22))


def test_compacting_removes_what_machines_have_seen_of_earlier_holders(place: Place) -> None:
    store = filled(place, 0)
    store.acquire(FLEET, holder(machine="elsewhere", pid=7), TTL_S)
    with pytest.raises(LeaseHeld):
        store.acquire(FLEET, holder("r2"), TTL_S)
    assert len(names(store, objects.seen_folder(FLEET))) == 1
    store.compact(FLEET)
    assert names(store, objects.seen_folder(FLEET)) == []


def test_a_holder_elsewhere_is_watched_on_by_the_next_process(place: Place) -> None:
    """An observation goes on over several invocations on this machine, without a file of its own."""
    clock = HandClock()
    filled(place, 0).acquire(FLEET, holder(machine="elsewhere", pid=9), TTL_S)
    for wait_s in (0.0, TTL_S - 1):
        clock.at_s += wait_s
        with pytest.raises(LeaseHeld):
            S3Store(place, clock, HandProcesses()).acquire(FLEET, holder("r2"), TTL_S)
    clock.at_s += 1
    assert S3Store(place, clock, HandProcesses()).acquire(FLEET, holder("r3"), TTL_S).epoch == 3
    assert names(opened(place), objects.seen_folder(FLEET)) == []


def test_a_few_slots_are_not_worth_a_segment(place: Place) -> None:
    store = filled(place, 3)
    done = store.compact(FLEET)
    assert (done.sealed, done.segments) == (0, 0)


def test_a_reader_that_was_there_before_reads_on_after_compaction(place: Place) -> None:
    store = filled(place, 10)
    reader = opened(place, read_only=True)
    assert reader.head(FLEET).sequence == 10
    head = append(store, store.head(FLEET))
    append(store, head)
    store.compact(FLEET)
    assert reader.head(FLEET).sequence == 12
    assert len(list(reader.read(FLEET, 9))) == 3


def test_compaction_that_was_killed_between_its_writes_is_finished_by_the_next(place: Place) -> None:
    store = filled(place, 10)
    log = store._journal.read(FLEET)
    store._journal._seal(FLEET, log.unsealed)
    assert len(list(opened(place).read(FLEET))) == 10
    again = opened(place)
    done = again.compact(FLEET)
    assert (done.sealed, done.segments) == (0, 1)
    sizes = {o.size_b for o in again._bucket.listing(objects.slots_name(FLEET))}
    assert sizes == {objects.SEALED_B}


def test_large_journals_are_sealed_into_several_segments(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetctl.stores.s3_journal.SEGMENT_MAX_B", 1000)
    store = filled(place, 12)
    assert store.compact(FLEET).segments > 2
    assert len(list(opened(place).read(FLEET))) == 12


# --- damage ---------------------------------------------------------------------------------------------


def flipped(data: bytes) -> bytes:
    at = len(data) - 5
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "bit": flipped,
    "cut": lambda data: data[:70],
    "longer": lambda data: data + b"\n{}",
}


@pytest.mark.parametrize("part", ["journal/000000000003", "segments/000000000001", "lease"])
def test_damage_is_found_and_names_the_object(place: Place, part: str) -> None:
    store = filled(place, 9 if "segments" in part else 3)
    if "segments" in part:
        store.compact(FLEET)
    name = f"fleets/{FLEET}/{part}"
    found = store._bucket.get(name)
    assert found is not None
    for damage in DAMAGES.values():
        store._bucket.put(name, damage(found.data))
        with pytest.raises(StateError, match=f"{part} is damaged") as caught:
            reader = opened(place, read_only=True)
            list(reader.read(FLEET))
            reader.current(FLEET)
        assert caught.value.code == "state.damaged"
        assert caught.value.hint


def test_an_entry_put_back_under_a_true_hash_still_breaks_the_chain(place: Place) -> None:
    """Whoever can write the bucket can make the object whole, but not the chain."""
    store = filled(place, 5)
    name = objects.slot_name(FLEET, 3)
    found = store._bucket.get(name)
    assert found is not None
    slot = objects.decode_slot(found.data, name)
    assert slot is not None
    data = slot.rows[0][0].replace(b"note", b"n0te")
    forged = Slot(
        slot.slot, slot.slot, slot.epoch, slot.fence, slot.first, ((data, hashlib.sha256(data).hexdigest()),)
    )
    store._bucket.put(name, objects.encode_slot(forged, "n"))
    with pytest.raises(StateError, match="entry 3 of fleet edge is damaged: it does not follow entry 2"):
        list(opened(place).read(FLEET))


def test_a_slot_that_was_removed_is_found(place: Place) -> None:
    store = filled(place, 5)
    store._bucket.delete(objects.slot_name(FLEET, 3))
    with pytest.raises(StateError, match="it is gone, and later ones are there"):
        opened(place).head(FLEET)


def test_a_sealed_slot_that_was_removed_is_a_problem_that_verify_tells(place: Place) -> None:
    store = filled(place, 9)
    store.compact(FLEET)
    store._bucket.delete(objects.slot_name(FLEET, 2))
    assert "000000000002 was removed" in opened(place).problems(FLEET)[0]


def test_a_newer_format_is_refused(place: Place) -> None:
    store = filled(place, 1)
    store._bucket.put(objects.lease_name(FLEET), objects.framed({"v": 99}))
    with pytest.raises(StateError, match="newer fleetctl") as caught:
        opened(place).current(FLEET)
    assert caught.value.code == "state.newer"


def test_a_changed_document_is_found(place: Place) -> None:
    store = filled(place, 0)
    digest = store.put(b"plan")
    store._bucket.put(objects.document_name(digest), b"plam")
    with pytest.raises(StateError, match="other bytes"):
        opened(place).get(digest)


def test_no_two_writes_of_a_lease_have_the_same_bytes() -> None:
    """A store whose token is a digest of the bytes would let a stale If-Match pass (Q7)."""
    row = Row(1, None)
    assert objects.encode_lease(row, "a") != objects.encode_lease(row, "b")


# --- readers and places ---------------------------------------------------------------------------------


def test_reading_a_place_without_a_state_writes_nothing(place: Place) -> None:
    reader = opened(place, read_only=True)
    assert reader.head(FLEET) == Head()
    assert (list(reader.fleets()), reader.current(FLEET), reader.secrets_key()) == ([], None, None)
    assert names(reader, "") == []


def test_a_bucket_that_is_not_there_is_an_error_with_a_hint(place: Place) -> None:
    with pytest.raises(StateError, match="no such bucket") as caught:
        opened(Place("no-such-bucket", "x", place.endpoint), read_only=True).head(FLEET)
    assert caught.value.code == "state.no_bucket"


def test_the_probe_leaves_nothing_behind(place: Place) -> None:
    store = opened(place, probed=False)
    store.initialise()
    assert names(store, "") == ["state.json"]


# --- stores that do not keep their promises --------------------------------------------------------------


def ignores(*headers: str) -> f.Fault:
    return lambda request, forward: forward(request.without_conditions(*headers))


def not_implemented(request: f.Request, forward: f.Forward) -> f.Response:
    return f.error(501, "NotImplemented") if request.conditional else forward(request)


def reads_stale(request: f.Request, forward: f.Forward) -> f.Response:
    if request.method == "GET" and "/probe/" in request.path:
        return f.error(404, "NoSuchKey")
    return forward(request)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (ignores("if-none-match"), "If-None-Match"),
        (ignores("if-match"), "If-Match is stale"),
        (not_implemented, "does not implement"),
        (reads_stale, "does not read what was written"),
    ],
    ids=["ignores If-None-Match", "ignores If-Match", "501", "reads stale"],
)
def test_a_store_that_ignores_conditions_is_refused_before_anything_is_kept_there(
    place: Place, s3_states: S3, broken: f.Fault, says: str
) -> None:
    faults = f.Faults(always=broken)
    with f.proxy(s3_states.endpoint, faults) as endpoint:
        store = opened(Place(place.bucket, place.prefix, endpoint), probed=False)
        for write in (
            store.initialise,
            lambda: store.acquire(FLEET, holder(), TTL_S),
            lambda: store.put(b"x"),
        ):
            with pytest.raises(StateError, match=says) as caught:
                write()
            assert caught.value.code == "state.conditions_ignored"
            assert "store qualify" in (caught.value.hint or "")
    assert names(opened(place), "") == []

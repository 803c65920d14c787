"""Conditional writes whose answers are lost, late, busy or wrong: each outcome is found out and never guessed (Q5)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import pytest

from fleetctl.ledger.ports import Head, JournalConflict, LeaseHeld, LeaseLost, StateError
from fleetctl.stores.s3 import S3Store
from fleetctl.stores.s3_bucket import Place
from fleetctl.stores.s3_settle import CALLS_MAX, TABLE, Answer, Next, Settling, on_answer
from tests.lab.s3 import S3
from tests.stores import s3_faults as f
from tests.stores.conformance import FLEET, TTL_S, HandClock, HandProcesses, holder
from tests.stores.test_sqlite import append

PREFIXES = count(1)


class Bench:
    """A store behind a proxy with faults, and one that reaches the same state without them."""

    def __init__(self, server: S3, endpoint: str, faults: f.Faults) -> None:
        prefix = f"faults/{next(PREFIXES)}"
        self.faults = faults
        self.clock, self.processes = HandClock(), HandProcesses()
        self.store = S3Store(Place("states", prefix, endpoint), self.clock, self.processes)
        self.plain = S3Store(Place("states", prefix, server.endpoint), self.clock, self.processes)
        # The probe has tests of its own; here it would meet the faults that are meant for others.
        self.store._probed = self.plain._probed = True
        self.plain.initialise()
        faults.seen.clear()

    def writes(self, part: str) -> int:
        return sum(r.method == "PUT" and part in r.name for r in self.faults.seen)


@pytest.fixture(scope="module")
def line(s3_bucket: S3) -> Iterator[tuple[S3, str, f.Faults]]:
    faults = f.Faults()
    with f.proxy(s3_bucket.endpoint, faults) as endpoint:
        yield s3_bucket, endpoint, faults


@pytest.fixture
def bench(line: tuple[S3, str, f.Faults], s3_states: S3) -> Iterator[Bench]:
    made = Bench(*line)
    yield made
    left, made.faults.waiting = made.faults.waiting, []
    made.faults.always = None
    assert left == [], "a fault was never met"


# --- the table ------------------------------------------------------------------------------------------


def test_the_table_says_what_to_do_for_every_answer_that_can_come() -> None:
    writing = {Answer.DONE, Answer.REFUSED, Answer.GONE, Answer.CONFLICT, Answer.LOST}
    reading = {Answer.OURS, Answer.THEIRS, Answer.GONE, Answer.AS_BEFORE, Answer.LOST}
    expected = {(Next.WRITE, d, a) for d, a in product((False, True), writing)}
    expected |= {(Next.READ, True, a) for a in reading}
    assert set(TABLE) == expected


def test_a_refusal_is_never_believed_after_a_lost_answer() -> None:
    doubtful = Settling(Next.WRITE, 3, doubt=True)
    assert on_answer(doubtful, Answer.REFUSED).next is Next.READ
    assert on_answer(Settling(), Answer.REFUSED).next is Next.BEATEN


@pytest.mark.parametrize("answer", [Answer.CONFLICT, Answer.LOST])
def test_a_store_that_never_settles_is_unknown_after_a_bounded_number_of_calls(answer: Answer) -> None:
    state = Settling()
    while state.next in (Next.WRITE, Next.READ):
        state = on_answer(state, answer)
    assert state.next is Next.UNKNOWN
    assert state.call == CALLS_MAX + 1


# --- the journal ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "times", "writes"),
    [
        (f.answers(f.CONFLICT), 1, 2),
        (f.answers(f.CONFLICT), 3, 4),
        (f.answers(f.BUSY), 1, 2),
        (f.lost, 1, 1),
        (f.done_and_500, 1, 1),
        (f.answers(f.BROKEN), 2, 3),
        (f.dropped, 1, 2),
        (f.delayed(0.2), 1, 1),
    ],
    ids=[
        "409",
        "409 three times",
        "503",
        "answer lost",
        "500 after it was done",
        "500 twice",
        "dropped",
        "slow",
    ],
)
def test_an_append_ends_as_one_append(bench: Bench, fault: f.Fault, times: int, writes: int) -> None:
    bench.faults.next(fault, f.puts("/journal/"), times)
    head = append(bench.store, Head())
    assert bench.writes("/journal/") == writes
    assert bench.plain.head(FLEET) == head
    assert len(list(bench.plain.read(FLEET))) == 1
    assert append(bench.store, head).sequence == 2


def test_a_lost_answer_is_not_taken_for_somebody_elses_write(bench: Bench) -> None:
    """The first try was done, the reading back fails, the second try meets the first: still ours."""
    bench.faults.next(f.lost, f.puts("/journal/"))
    bench.faults.next(f.answers(f.BROKEN), f.gets("/journal/"), 2)
    assert append(bench.store, Head()).sequence == 1


def test_when_the_answer_is_lost_and_somebody_else_has_the_place_it_is_a_conflict(bench: Bench) -> None:
    def rival_first(request: f.Request, forward: f.Forward) -> f.Response | None:
        append(bench.plain, Head())
        forward(request)
        return None

    bench.store.head(FLEET)
    bench.faults.next(rival_first, f.puts("/journal/"))
    with pytest.raises(JournalConflict):
        append(bench.store, Head())
    assert len(list(bench.plain.read(FLEET))) == 1


def test_an_append_that_nobody_can_say_anything_of_is_an_error_that_says_so(bench: Bench) -> None:
    bench.store.head(FLEET)
    bench.faults.always = f.dropped
    with pytest.raises(StateError, match="may or may not") as caught:
        append(bench.store, Head())
    assert caught.value.code == "state.unanswered"
    bench.faults.always = None
    assert append(bench.store, bench.store.head(FLEET)).sequence == 1


def test_one_append_is_one_request(bench: Bench) -> None:
    head = append(bench.store, Head())
    bench.faults.seen.clear()
    for _ in range(5):
        head = append(bench.store, head)
    assert [r.method for r in bench.faults.seen] == ["PUT"] * 5
    assert all(r.headers.get("if-none-match") == "*" for r in bench.faults.seen)


# --- the lease ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [f.answers(f.CONFLICT), f.lost, f.done_and_500, f.answers(f.BUSY)],
    ids=["409", "lost", "500", "503"],
)
@pytest.mark.parametrize("verb", ["acquire", "renew", "release"])
def test_a_lease_survives_a_fault_and_stays_one(bench: Bench, fault: f.Fault, verb: str) -> None:
    lease: Any = None
    if verb != "acquire":
        lease = bench.store.acquire(FLEET, holder(), TTL_S)
    bench.faults.next(fault, f.puts("/lease"))
    if verb == "acquire":
        lease = bench.store.acquire(FLEET, holder(), TTL_S)
    elif verb == "renew":
        lease = bench.store.renew(lease)
    else:
        bench.store.release(lease)
        assert bench.plain.current(FLEET) is None
        assert bench.plain.acquire(FLEET, holder("r2"), TTL_S).epoch == 2
        return
    assert lease.epoch == 1
    assert bench.plain.current(FLEET) == lease
    with pytest.raises(LeaseHeld):
        bench.plain.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S)


def test_a_conflict_does_not_say_that_somebody_holds_the_lease(bench: Bench) -> None:
    """409 to every caller: each tries again, and exactly one holds it at the end."""
    bench.faults.next(f.answers(f.CONFLICT), f.puts("/lease"), 4)
    got: list[str] = []

    def take(n: int) -> None:
        with contextlib.suppress(LeaseHeld):
            got.append(bench.store.acquire(FLEET, holder(f"r{n}"), TTL_S).holder.run)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_a_renewal_of_a_lease_that_was_taken_over_is_lost(bench: Bench) -> None:
    lease = bench.store.acquire(FLEET, holder(pid=1), TTL_S)
    del bench.processes.alive[1]
    assert bench.plain.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S).epoch == 2
    with pytest.raises(LeaseLost, match="epoch 2"):
        bench.store.renew(lease)
    with pytest.raises(LeaseLost):
        bench.store.check(lease)


def test_a_lease_object_that_is_gone_is_lost_and_not_made_anew_by_a_renewal(
    bench: Bench, line: tuple[S3, str, f.Faults]
) -> None:
    """404 on If-Match."""
    lease = bench.store.acquire(FLEET, holder(), TTL_S)
    bench.plain._bucket.delete("fleets/edge/lease")
    with pytest.raises(LeaseLost):
        bench.store.renew(lease)
    assert bench.plain.current(FLEET) is None
    # The journal's fences still know the epoch.
    assert bench.plain.acquire(FLEET, holder("r2"), TTL_S).epoch == 2


# --- fencing --------------------------------------------------------------------------------------------


def test_an_append_on_its_way_while_the_lease_changes_hands_is_refused(bench: Bench) -> None:
    """The old holder has checked everything and its request is under way: the newer epoch's fence takes its slot."""
    lease = bench.store.acquire(FLEET, holder(pid=1), TTL_S)
    head = append(bench.store, Head())

    def takeover_first(request: f.Request, forward: f.Forward) -> f.Response:
        del bench.processes.alive[1]
        assert bench.plain.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S).epoch == 2
        return forward(request)

    bench.faults.next(takeover_first, f.puts("/journal/"))
    with pytest.raises(LeaseLost, match=r"epoch 1 .* is fenced: epoch 2"):
        append(bench.store, head)
    assert len(list(bench.plain.read(FLEET))) == 1
    assert lease.epoch == 1


def test_an_old_holder_that_wakes_after_its_slots_were_sealed_still_appends_nothing(bench: Bench) -> None:
    bench.store.acquire(FLEET, holder(pid=1), TTL_S)
    head = append(bench.store, Head())
    del bench.processes.alive[1]
    newer = bench.plain.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S)
    later = bench.plain.head(FLEET)
    for _ in range(10):
        later = append_as(bench.plain, later, newer.epoch)
    assert bench.plain.compact(FLEET).sealed >= 10
    with pytest.raises(LeaseLost):
        append(bench.store, head)
    assert bench.plain.head(FLEET) == later


def test_an_append_whose_answer_is_lost_and_whose_slot_is_sealed_meanwhile_was_done(bench: Bench) -> None:
    bench.store.acquire(FLEET, holder(pid=1), TTL_S)
    head = append(bench.store, Head())

    def sealed_meanwhile(request: f.Request, forward: f.Forward) -> f.Response | None:
        forward(request)
        del bench.processes.alive[1]
        newer = bench.plain.acquire(FLEET, holder("r2", pid=2, started=22), TTL_S)
        later = bench.plain.head(FLEET)
        for _ in range(8):
            later = append_as(bench.plain, later, newer.epoch)
        assert bench.plain.compact(FLEET).sealed > 8
        return None

    bench.faults.next(sealed_meanwhile, f.puts("/journal/"))
    head = append(bench.store, head)
    assert head.sequence == 2
    with pytest.raises(LeaseLost):
        append(bench.store, head)
    assert len(list(bench.plain.read(FLEET))) == 10


def append_as(store: S3Store, head: Head, epoch: int) -> Head:
    from fleetctl.ledger import entries
    from fleetctl.ledger.entries import Context, seal

    body = entries.control("note", "me")
    sealed = seal([body], Context(FLEET, "l1", "r1", epoch), head, "2026-01-01T00:00:00.000Z")
    return store.append(FLEET, head.sequence, sealed, epoch)


# --- reads ----------------------------------------------------------------------------------------------


def test_reads_are_tried_again_and_a_dead_store_is_an_error_with_a_hint(bench: Bench) -> None:
    append(bench.plain, Head())
    bench.faults.next(f.answers(f.BROKEN), lambda r: r.method == "GET", 3)
    assert bench.store.head(FLEET).sequence == 1
    bench.faults.always = f.answers(f.BROKEN)
    with pytest.raises(StateError, match="does not answer") as caught:
        bench.store.head(FLEET)
    assert caught.value.hint

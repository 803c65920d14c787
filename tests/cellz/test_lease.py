"""The lease core: who may write, judged by observation on one's own clock. Properties phrased as never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cellz import lease
from fleetctl.cellz.lease import (
    Denied,
    Fence,
    Granted,
    Lease,
    Lost,
    Phase,
    Read,
    Release,
    Seen,
    Standing,
    Terms,
    Tick,
    Trouble,
    Unknown,
    Unreadable,
    Want,
    Won,
    Write,
    on_event,
    valid,
)

TERMS = Terms("me", 10.0)
OTHER = Lease("other", epoch=4, ttl_s=10.0, address="http://other")


def held(now: float = 0.0) -> Standing:
    state, _ = on_event(Standing(), Want(now), TERMS)
    state, _ = on_event(state, Seen(None, "", now), TERMS)
    state, effects = on_event(state, Won("t1", now), TERMS)
    assert effects == (Granted(1),)
    return state


def test_a_free_lease_is_taken_with_the_next_epoch() -> None:
    state, effects = on_event(Standing(), Want(0), TERMS)
    assert effects == (Read(),)
    state, effects = on_event(state, Seen(None, "", 0), TERMS)
    assert effects == (Write(1, ""),)


@pytest.mark.parametrize("found", [Lease("me", 7, 10), Lease("other", 7, 10, released=True)])
def test_our_own_and_a_released_lease_are_taken_at_once(found: Lease) -> None:
    """A restarted node with its stable id has its own cells back at once."""
    state, _ = on_event(Standing(), Want(0), TERMS)
    _, effects = on_event(state, Seen(found, "t", 0), TERMS)
    assert effects == (Write(8, "t"),)


def test_a_foreign_lease_is_denied_until_its_token_stood_still_for_its_ttl() -> None:
    state, now = Standing(), 100.0
    while now < 110.0:
        state, _ = on_event(state, Want(now), TERMS)
        if state.phase is Phase.READING:
            state, effects = on_event(state, Seen(OTHER, "t", now), TERMS)
            assert effects == (Denied("http://other", pytest.approx(110.0 - now)),)
        now += 0.3
    state, _ = on_event(state, Want(110.1), TERMS)
    _, effects = on_event(state, Seen(OTHER, "t", 110.1), TERMS)
    assert effects == (Write(5, "t"),)


def test_a_renewed_foreign_lease_starts_the_watch_anew() -> None:
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, _ = on_event(state, Seen(OTHER, "t1", 0), TERMS)
    state, _ = on_event(state, Want(9.9), TERMS)
    state, _ = on_event(state, Seen(OTHER, "t2", 9.9), TERMS)
    state, _ = on_event(state, Want(11), TERMS)
    _, effects = on_event(state, Seen(OTHER, "t2", 11), TERMS)
    assert isinstance(effects[0], Denied)


def test_a_look_that_was_just_taken_is_not_taken_again() -> None:
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, _ = on_event(state, Seen(OTHER, "t1", 0), TERMS)
    after, effects = on_event(state, Want(0.01), TERMS)
    assert after is state
    assert isinstance(effects[0], Denied)


def test_the_right_counts_from_before_the_write_was_sent() -> None:
    """A watcher counts from after it landed, so the two never overlap."""
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, _ = on_event(state, Seen(None, "", 0), TERMS)
    state, _ = on_event(state, Won("t", 6.0), TERMS)
    assert state.until == 10.0
    state, effects = on_event(state, Tick(7.0), TERMS)
    assert effects == (Write(1, "t"),)
    state, _ = on_event(state, Won("t2", 9.0), TERMS)
    assert state.until == 17.0


def test_a_taking_whose_answer_took_longer_than_the_right_is_written_again() -> None:
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, _ = on_event(state, Seen(None, "", 0), TERMS)
    state, effects = on_event(state, Won("t", 10.0), TERMS)
    assert effects == (Write(1, "t"),)
    assert not valid(state, 10.0)


def test_renewal_is_due_at_a_third_of_the_ttl() -> None:
    state = held()
    assert on_event(state, Tick(3.3), TERMS) == (state, ())
    _, effects = on_event(state, Tick(3.4), TERMS)
    assert effects == (Write(1, "t1"),)


@pytest.mark.parametrize("late", [10.0, 3610.0])
def test_a_holder_that_wakes_past_its_ttl_is_fenced(late: float) -> None:
    state = held()
    assert not valid(state, late)
    _, effects = on_event(state, Tick(late), TERMS)
    assert effects == (Fence(),)


def test_a_renewal_answered_past_the_ttl_is_a_fence() -> None:
    state, _ = on_event(held(), Tick(5), TERMS)
    _, effects = on_event(state, Won("t2", 10.0), TERMS)
    assert effects == (Fence(),)


def test_a_lost_renewal_is_a_fence() -> None:
    state, _ = on_event(held(), Tick(5), TERMS)
    _, effects = on_event(state, Lost(5.1), TERMS)
    assert effects == (Fence(),)


def test_an_unanswered_renewal_is_read_back_before_the_next() -> None:
    state, _ = on_event(held(), Tick(5), TERMS)
    state, effects = on_event(state, Unknown(5.5), TERMS)
    assert effects == ()
    assert valid(state, 9.9)
    assert not valid(state, 10.0)
    state, effects = on_event(state, Tick(7), TERMS)
    assert effects == (Read(),)
    after, effects = on_event(state, Seen(Lease("me", 1, 10), "t9", 7), TERMS)
    assert effects == (Write(1, "t9"),)
    _, effects = on_event(state, Seen(Lease("other", 2, 10), "t9", 7), TERMS)
    assert effects == (Fence(),)
    assert after.until == 10.0


def test_an_unreadable_store_is_trouble_and_no_verdict() -> None:
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, effects = on_event(state, Unreadable(0.1), TERMS)
    assert effects == (Trouble(),)
    assert state.phase is Phase.UNHELD


def test_a_lost_taking_reads_who_came_first() -> None:
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, _ = on_event(state, Seen(None, "", 0), TERMS)
    state, effects = on_event(state, Lost(0.1), TERMS)
    assert effects == (Read(),)
    _, effects = on_event(state, Seen(OTHER, "t", 0.2), TERMS)
    assert isinstance(effects[0], Denied)


def test_release_keeps_the_epoch_in_the_store() -> None:
    _, effects = on_event(held(), Release(1), TERMS)
    assert effects == (Write(1, "t1", released=True),)


def test_a_cell_dropped_in_doubt_is_taken_anew_under_a_higher_epoch() -> None:
    state, effects = on_event(held(), Want(1), TERMS)
    assert effects == (Read(),)
    assert not valid(state, 1)
    _, effects = on_event(state, Seen(Lease("me", 1, 10), "t1", 1), TERMS)
    assert effects == (Write(2, "t1"),)


@given(
    skew=st.floats(-3600, 3600),
    turns=st.lists(st.tuples(st.sampled_from(["renew", "look"]), st.floats(0, 7)), min_size=1, max_size=40),
)
def test_no_two_nodes_ever_hold_it_at_once(skew: float, turns: list[tuple[str, float]]) -> None:
    """One holds and renews when it gets to it, the other looks when it does, its clock off by up to an hour."""
    holder, token = held(0.0), "t1"
    watcher = Standing()
    now = 0.0
    for what, gap in turns:
        now += gap
        if what == "renew":
            holder, effects = on_event(holder, Tick(now), TERMS)
            if effects and isinstance(effects[0], Write):
                token = f"t{now}"
                holder, _ = on_event(holder, Won(token, now), TERMS)
            continue
        its = now + skew + 5000
        watcher, effects = on_event(watcher, Want(its), TERMS)
        if effects == (Read(),):
            watcher, effects = on_event(
                watcher, Seen(Lease("me", 1, 10.0), token, its), Terms("watcher", 10.0)
            )
        if isinstance(effects[0], Write):
            assert not valid(holder, now)
            return


def test_an_original_nodes_lease_is_watched_for_our_own_ttl() -> None:
    """It has neither epoch nor TTL; its expiry was written with another clock and decides nothing (Q8)."""
    original = Lease("uuid")
    state, _ = on_event(Standing(), Want(0), TERMS)
    state, effects = on_event(state, Seen(original, "t", 0), TERMS)
    assert isinstance(effects[0], Denied)
    state, _ = on_event(state, Want(10), TERMS)
    _, effects = on_event(state, Seen(original, "t", 10), TERMS)
    assert effects == (Write(1, "t"),)


def test_every_phase_of_the_table_can_be_reached_and_left() -> None:
    phases = {phase for phase, _ in lease._MOVES}
    assert phases == set(Phase)

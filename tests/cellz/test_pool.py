"""Where writes run: on the loop at the end of its turn while the disk keeps up, else on the pool's threads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cellz.ops import Append, Compact, PutKv, is_light
from fleetctl.cellz.pace import STALL_S, Pace
from fleetctl.cellz.pool import Pool
from fleetctl.cellz.words import NewEvent


class Work:
    """A batch that notes where it ran; `locked` ones would have to wait on the loop."""

    def __init__(
        self, light: bool, *, locked: bool = False, waits_s: float = 0.0, yielding: bool = False
    ) -> None:
        self.light = light
        self.yielding = yielding
        self.nice = 0
        self.ran_in: threading.Thread | None = None
        self.told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._locked = locked
        self._waits_s = waits_s

    def run_here(self) -> bool:
        if self._locked:
            return False
        Clock.time += self._waits_s
        self.ran_in = threading.current_thread()
        return True

    def run(self) -> None:
        self.ran_in = threading.current_thread()
        self.nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def done(self) -> None:
        self.told.set_result(None)


class Clock:
    """Monotonic time that only stalls move."""

    time = 100.0

    @classmethod
    def now(cls) -> float:
        return cls.time


def run(*makers: Any) -> list[Work]:
    """Run batches, one turn of the loop each, and return them when all have been told."""

    async def main() -> list[Work]:
        pool = Pool(2, asyncio.get_running_loop(), Clock.now)
        made: list[Work] = []
        try:
            for maker in makers:
                work = maker()
                made.append(work)
                pool.submit(lambda work=work: work)
                await asyncio.wait_for(work.told, 60)
        finally:
            pool.close()
        return made

    return asyncio.run(main())


def test_light_work_runs_on_the_loop_and_the_rest_on_threads() -> None:
    light, heavy = run(lambda: Work(True), lambda: Work(False))
    assert light.ran_in is threading.main_thread()
    assert heavy.ran_in is not threading.main_thread()


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a priority of its own on Linux only")
def test_what_nobody_waits_for_gives_way_to_the_rest() -> None:
    heavy, yielding = run(lambda: Work(False), lambda: Work(False, yielding=True))
    assert yielding.nice > heavy.nice


def test_what_nobody_waits_for_is_done_where_priorities_are_forbidden_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", forbidden)
    (work,) = run(lambda: Work(False, yielding=True))
    assert work.ran_in not in (None, threading.main_thread())


def test_what_would_have_to_wait_for_a_lock_goes_to_a_thread() -> None:
    (work,) = run(lambda: Work(True, locked=True))
    assert work.ran_in not in (None, threading.main_thread())


def test_after_a_stall_writes_go_to_the_threads_until_it_is_paid_off() -> None:
    def later() -> Work:
        Clock.time += STALL_S * 1000
        return Work(True)

    stalled, next_one, after = run(lambda: Work(True, waits_s=STALL_S * 2), lambda: Work(True), later)
    assert stalled.ran_in is threading.main_thread()
    assert next_one.ran_in is not threading.main_thread()
    assert after.ran_in is threading.main_thread()


def test_a_turn_runs_everything_before_anyone_is_woken() -> None:
    """The order is: every batch, then those who wait; `done` only settles futures."""

    async def main() -> list[str]:
        pool = Pool(1, asyncio.get_running_loop(), Clock.now)
        order: list[str] = []

        class Noted(Work):
            def run_here(self) -> bool:
                order.append("ran")
                return super().run_here()

        async def wait(work: Work) -> None:
            await work.told
            order.append("woken")

        works = [Noted(True) for _ in range(3)]
        for work in works:
            pool.submit(lambda work=work: work)
        await asyncio.gather(*map(wait, works))
        pool.close()
        return order

    assert asyncio.run(main()) == ["ran"] * 3 + ["woken"] * 3


@given(st.lists(st.floats(0, 1), max_size=60))
def test_stalls_never_take_more_than_a_twentieth_of_the_loop(times: list[float]) -> None:
    """Whatever the disk does, between two writes on the loop lies twenty times what the first one stalled."""
    pace, now = Pace(), 0.0
    stalled = rested = 0.0
    for took in times:
        while not pace.quick(now):
            now += 0.01
            rested += 0.01
        pace.took(now, now + took)
        now += took
        if took > STALL_S * 1.01:
            stalled += took
    while not pace.quick(now):
        now += 0.01
        rested += 0.01
    assert rested >= 20 * stalled * 0.99


@pytest.mark.parametrize(
    ("op", "light"),
    [
        (Append((NewEvent("i", None, "note", "1", "at"),)), True),
        (Append((NewEvent("i", None, "note", "x" * 100_000, "at"),)), False),
        (Append(tuple(NewEvent(str(n), None, "note", "1", "at") for n in range(500))), False),
        (PutKv("k", "1", "at"), True),
        (Compact(3, "i", "at"), False),
    ],
)
def test_only_what_touches_few_pages_is_light(op: Any, light: bool) -> None:
    assert is_light(op) is light

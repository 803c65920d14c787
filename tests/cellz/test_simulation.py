"""Leases, takeover and the shared log under a seeded scheduler, and broken variants that it must catch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fleetctl.cellz import blobs, conditional, lease, restore, sharedlog, tenure
from fleetctl.cellz.conditional import Answer, Effect, Phase
from tests.cellz.simulation import Broken, Odds, play

SEEDS = 60
SOAK_SEEDS = 2000
# A broken variant must be noticed within this many seeds.
TEETH_SEEDS = 300


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_acknowledged_event_is_lost_and_no_sequence_given_twice(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path)


def test_the_histories_are_worth_something(tmp_path: Path) -> None:
    """Over the seeds, many events are acknowledged under many epochs: the checks above had work to do."""
    acked = epochs = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = play(seed, folder)
        acked += len(world.acked)
        epochs += tenure.parse(world.objects["leases/c.lease"][0]).epoch
    assert acked > 50
    assert epochs > 20


def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    histories = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        histories.append(play(7, tmp_path / name).acked)
    assert histories[0] == histories[1]


@pytest.mark.soak
def test_no_acknowledged_event_is_lost_in_long_runs(tmp_path: Path) -> None:
    for seed in range(SEEDS, SOAK_SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            play(seed, folder, steps=900)
        except Broken as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
        shutil.rmtree(folder)


def _takes_at_sight(patch: pytest.MonkeyPatch) -> None:
    """A foreign lease is taken without waiting for its TTL."""
    kept = lease._seen
    moved = lambda state, event, terms: kept(  # noqa: E731
        replace(state, seen_token=event.token, seen_since=event.now - 100), event, terms
    )
    patch.setitem(lease._MOVES, (lease.Phase.READING, lease.Seen), moved)


def _believes_in_silence(patch: pytest.MonkeyPatch) -> None:
    """No answer counts as done."""
    patch.setitem(conditional._MOVES, (Phase.WRITE, Answer.UNANSWERED), (Phase.DONE, Effect.WON))


def _believes_in_conflict(patch: pytest.MonkeyPatch) -> None:
    """409 counts as done."""
    patch.setitem(conditional._MOVES, (Phase.WRITE, Answer.CONFLICT), (Phase.DONE, Effect.WON))


def _puts_no_fence(patch: pytest.MonkeyPatch) -> None:
    """A successor reads the log and leaves no mark in it."""
    patch.setattr(restore.Restorer, "_put_fence", lambda self, restored, log, epoch, number, *more: number)


def _trims_fences(patch: pytest.MonkeyPatch) -> None:
    """Old fences are removed with the other slots, so that an old holder finds its slot free."""

    def trim(self: sharedlog.SharedLog, through: int) -> int:
        keys = [key for key in self._blobs.keys("cells/c.log/") if int(key[-12:]) <= through]
        for key in keys:
            self._blobs.delete(key)
        return len(keys)

    patch.setattr(sharedlog.SharedLog, "trim", trim)


def _overwrites_slots(patch: pytest.MonkeyPatch) -> None:
    """A slot is written without its condition."""

    def write(
        store: blobs.Blobs, key: str, data: bytes, token: str, sleep: Callable[[float], None]
    ) -> blobs.Outcome:
        return blobs.Outcome(Effect.WON, blobs.retried(lambda: store.put(key, data), sleep, key))

    patch.setattr(sharedlog, "write_if", write)


# Faults hide what only a long stop shows: these variants are sought in a world whose store always answers.
CALM = Odds(failed=0, lost=0, late=0, busy=0, kill=0, stop=0.012)
VARIANTS = [
    (_takes_at_sight, Odds()),
    (_believes_in_silence, Odds()),
    (_believes_in_conflict, Odds()),
    (_overwrites_slots, Odds()),
    (_puts_no_fence, CALM),
    (_trims_fences, CALM),
]


@pytest.mark.parametrize(
    ("variant", "odds"), VARIANTS, ids=lambda value: getattr(value, "__name__", "").strip("_")
)
def test_a_broken_variant_is_caught(
    variant: Callable[[pytest.MonkeyPatch], None], odds: Odds, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variant(monkeypatch)
    for seed in range(TEETH_SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            play(seed, folder, odds=odds, steps=600)
        except Broken:
            return
    pytest.fail(f"{variant.__name__} went unnoticed for {TEETH_SEEDS} seeds")

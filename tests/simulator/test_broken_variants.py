"""A checker that never fails has no teeth: engines with one rule taken out are kept, and each is caught."""

from __future__ import annotations

import pytest

from executors.outcome import OutcomeState
from fleetctl.engine import decide, gates, operate
from fleetctl.engine.events import Effect, Performed
from fleetctl.engine.loop import Loop
from fleetctl.engine.rollout import Rollout
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.operations import Record, Request, Verdict
from tests.simulator import harness
from tests.simulator.seeds import live

SEEDS = 150


def caught(**how: bool) -> list[str]:
    """What the seeds find, up to the first that finds anything."""
    for seed in range(SEEDS):
        try:
            broken = live(seed, **how).broken
        except Exception as e:  # noqa: BLE001 - a variant that falls over is caught, too
            return [repr(e)]
        if broken:
            return broken
    return []


def test_an_engine_that_records_no_intent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes intent and dispatch together with the outcome, so a crash in between forgets the effect."""
    original = Loop.append

    def forgetful(self: Loop, bodies: tuple[dict[str, object], ...]) -> None:
        waiting: list[dict[str, object]] = self.__dict__.setdefault("waiting", [])
        early = [b for b in bodies if b.get("state") in ("intended", "dispatched")]
        rest = [b for b in bodies if b not in early]
        waiting += early
        if rest:
            now, self.__dict__["waiting"] = tuple(waiting), []
            original(self, (*now, *rest))

    monkeypatch.setattr(Loop, "append", forgetful)
    assert caught() != []


def test_an_engine_that_repeats_what_is_unknown_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def admit_all(
        request: Request, recorded: Record | None, previous: Record | None, **rest: object
    ) -> Verdict:
        return Verdict.NEW

    original = operate.on_performed

    def again(rollout: Rollout, event: Performed, out: list[Effect]) -> None:
        state = rollout.steps[event.step]
        current = event.attempt == state.attempt and state.key in rollout.running
        if event.outcome.state is OutcomeState.UNKNOWN and current:
            state.attempt += 1
            rollout.running.pop(state.key)
            operate.dispatch(rollout, state, out, event.now_s)
            return
        original(rollout, event, out)

    monkeypatch.setattr(operate, "admit", admit_all)
    monkeypatch.setattr(operate, "on_performed", again)
    assert decide.operate is operate
    assert caught() != []


def test_an_engine_without_a_fence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks nobody whether it still holds the lease, and its store takes what comes, wherever the journal ends."""
    original = harness.CrashingStore.append

    def blindly(self, fleet, expected, entries, epoch):  # type: ignore[no-untyped-def]
        row, head = self._leases.get(fleet), self.head(fleet)
        bodies = [{k: v for k, v in e.items() if k not in ("sequence", "prev_sha256")} for e in entries]
        first = entries[0]
        context = Context(fleet, first["lineage"], first["run"], first["epoch"])
        sealed = seal(bodies, context, head, first["at"])
        return original(self, fleet, head.sequence, sealed, epoch if row is None else row.epoch)

    monkeypatch.setattr(harness.CrashingStore, "append", blindly)
    monkeypatch.setattr(harness.CrashingStore, "check", lambda self, lease: None)
    monkeypatch.setattr(harness.CrashingStore, "renew", lambda self, lease: lease)
    monkeypatch.setattr(Loop, "_keep", lambda self: None)
    assert caught(checks_epoch=False) != []


def test_an_engine_without_a_budget_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "_slot", lambda rollout, node: "")
    monkeypatch.setattr(gates, "_floors", lambda rollout, node, floor: "")
    found = caught()
    assert any(line.startswith("floor:") for line in found), found


def test_the_engine_itself_passes_the_same_seeds() -> None:
    assert caught() == []

"""A rollout brought to where its journal says it was: what `recover` continues from."""

from __future__ import annotations

from fleetctl.engine import controls, revert
from fleetctl.engine.events import Effect
from fleetctl.engine.operate import DRAINING, enter, opens
from fleetctl.engine.progress import fail, succeed
from fleetctl.engine.rollout import Halt, Rollout, Status, StepState
from fleetctl.ledger.operations import By, Record, State
from fleetctl.ledger.replay import Run
from manifests.errors import ExitCode
from planner.plan import StepKind


def restore(rollout: Rollout, run: Run) -> None:
    """Marks what the run has done, failed, or left open. Operations left open are looked up when it starts.

    Staging is done again (harmless), and so is a verification that was not recorded as passed.
    """
    _restore(rollout, run)
    ignored: list[Effect] = []
    for entry in run.controls:
        if entry["verb"] != revert.VERB:
            controls.on_controlled(rollout, entry["verb"], entry["who"], ignored)
        else:
            rollout.halt = Halt("failed", ExitCode.FAILED, entry["reason"])
            revert.prepare(rollout, entry["way"], full=entry.get("full", False))
            _restore(rollout, run)
    rollout.examining = 0  # what failed before was examined by the run that was cut off, or by nobody


def _restore(rollout: Rollout, run: Run) -> None:
    ignored: list[Effect] = []  # it was said and recorded by the run that was cut off
    for state in list(rollout.steps.values()):
        record = run.operations.get(state.key)
        if state.status is not Status.WAITING:
            continue
        if state.step.kind is StepKind.VERIFY:
            if state.key in run.healthy and state.node is not None:
                _enter(rollout, state)
                succeed(rollout, state, ignored, 0.0)
        elif record is not None:
            _take_up(rollout, state, record, ignored)


def _take_up(rollout: Rollout, state: StepState, record: Record, ignored: list[Effect]) -> None:
    state.record, state.attempt = record, record.attempt
    rollout.operations += 1
    if record.state is State.SUCCEEDED:
        _enter(rollout, state)
        _know(state, record)
        succeed(rollout, state, ignored, 0.0)
    elif not record.final:
        _enter(rollout, state)
    elif record.not_performed and record.by in (By.LOOKUP, By.OPERATOR):
        # Provably never happened: it is tried again under the next attempt.
        state.attempt += 1
        if not opens(state):
            _enter(rollout, state)
    else:
        _enter(rollout, state)
        fail(rollout, state, str(record.evidence.get("detail") or record.state.value), ignored, 0.0)


def _enter(rollout: Rollout, state: StepState) -> None:
    if state.node is not None:
        enter(rollout, state, state.node, 0.0)


def _know(state: StepState, record: Record) -> None:
    """What a recorded success says of its node; placement itself was replayed from the journal."""
    node = state.node
    if node is None:
        return
    instance = record.evidence.get("instance")
    if isinstance(instance, str) and instance:
        node.instance = instance
    if state.step.kind is StepKind.START:
        node.running = True
        node.serves_again()
    elif state.step.kind in DRAINING:
        node.withdrawn, node.drained = True, node.drained or state.step.kind is StepKind.DRAIN
    elif state.step.kind in (StepKind.STOP, StepKind.DESTROY):
        node.running = False

"""What the engine's state proves about an operation: one row for each effect (docs/effects.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from executors.docker import names, observe
from executors.docker.record import has_files_volume
from executors.driver import Operation
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from planner.plan import StepKind

STILL_RUNNING = "docker.still_running"
State = tuple[Mapping[str, Any], Mapping[str, str] | None]
"""An inspected container and the record in its files volume."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect's row: whether an operation was the one that left this state, and what a state proves."""

    replays: Callable[[Operation, State], bool]
    settled: Callable[[Operation, State | None], Outcome]


def settled(operation: Operation, state: State | None) -> Outcome:
    """The outcome that the state proves: succeeded, failed (it did not come about), or unknown."""
    return EFFECTS[operation.effect].settled(operation, state)


def fenced(operation: Operation, state: State | None) -> Outcome | None:
    """Refuses another lineage, an older epoch, an older generation, and what is not ours; None: go on."""
    if state is None:
        return None
    inspected, _ = state
    if not observe.owned(inspected):
        return failed(
            "docker.name_taken",
            f"container {inspected['Id'][:12]} has the name {names.container(operation.uid)} and is not ours; "
            "nothing was touched",
        )
    labels = _labels(state)
    adopting = operation.effect is StepKind.ADOPT
    foreign = labels.get(names.LINEAGE) != operation.lineage
    if foreign and not adopting:
        return rejected("docker.other_lineage", "the container belongs to another state; adopt it first")
    # Another lineage's epochs say nothing of ours; an adoption within one lineage is fenced like any effect.
    if _number(labels, names.EPOCH) > operation.epoch and not (adopting and foreign):
        return rejected(
            "docker.stale_epoch", f"epoch {operation.epoch} is fenced by {_number(labels, names.EPOCH)}"
        )
    if _number(labels, names.GENERATION) > operation.generation:
        return rejected(
            "docker.stale_generation",
            f"generation {operation.generation} is older than {_number(labels, names.GENERATION)}",
        )
    return None


def impossible(operation: Operation, state: State | None) -> Outcome | None:
    """Refuses what this state does not allow; None: make the call."""
    if state is None:
        if operation.effect is StepKind.CREATE:
            return None
        return settled(operation, None)
    inspected, _ = state
    running = bool(inspected["State"].get("Running"))
    if operation.effect is StepKind.CREATE:
        return failed("docker.exists", f"container {inspected['Id'][:12]} of this node is still there")
    if operation.effect is StepKind.DESTROY and running:
        return rejected("docker.still_running", "a running container is not removed")
    if operation.effect is StepKind.RELOAD and not running:
        return failed("docker.not_running", "there is nothing to reload")
    if operation.effect in (StepKind.RELOAD, StepKind.ADOPT) and not has_files_volume(inspected):
        return rejected(
            "docker.needs_replacement",
            "a container's labels cannot be changed, and this one has no files volume to keep a record in: "
            "it needs one replacement",
        )
    return None


def _labels(state: State) -> dict[str, str]:
    return observe.identity(state[0], state[1])


def _number(labels: Mapping[str, str], name: str) -> int:
    text = labels.get(name, "0")
    return int(text) if text.isdecimal() else 0


def _is_last(operation: Operation, state: State) -> bool:
    """Whether the container's record names this very operation and attempt."""
    labels = _labels(state)
    return labels.get(names.OPERATION) == operation.operation_id and labels.get(names.ATTEMPT) == str(
        operation.attempt
    )


def _created(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("docker.not_created", "there is no such container")
    if _is_last(operation, state):
        return succeeded("docker.created", container=str(state[0]["Id"])[:12])
    return failed("docker.not_created", "the container there was made by another operation")


def _of_generation(operation: Operation, state: State) -> bool:
    return _number(_labels(state), names.GENERATION) == operation.generation


def _started(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("docker.gone", "there is no such container")
    inspected = state[0]
    if not _of_generation(operation, state):
        return failed("docker.not_started", "the container there is of another generation")
    instance = observe.instance(inspected)
    if inspected["State"].get("Running"):
        return succeeded("docker.started", instance=instance)
    status, error = inspected["State"].get("Status"), inspected["State"].get("Error")
    if instance is None or error:
        return failed("docker.not_started", error or f"it was never started ({status})")
    code = inspected["State"].get("ExitCode")
    return failed(
        "process.exited", f"it started and ended with exit code {code}", exit_code=code, instance=instance
    )


def _stopped(operation: Operation, state: State | None) -> Outcome:
    del operation
    if state is None:
        return succeeded("docker.gone", "there is no such container, so nothing runs")
    inspected = state[0]
    if inspected["State"].get("Running") or inspected["State"].get("Restarting"):
        return failed(STILL_RUNNING, "it runs")
    return succeeded(
        "docker.stopped",
        exit_code=inspected["State"].get("ExitCode"),
        finished_at=inspected["State"].get("FinishedAt"),
    )


def _reloaded(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("docker.gone", "there is no such container")
    if _is_last(operation, state):
        # The record goes in with the files, before the signal: whether the signal came through nobody can see.
        return unknown("docker.reload", "the files are in place; the engine keeps no evidence of a signal")
    return failed("docker.not_reloaded", "the files of this operation were not placed")


def _destroyed(operation: Operation, state: State | None) -> Outcome:
    del operation
    if state is None:
        return succeeded("docker.gone")
    return failed("docker.not_removed", f"container {state[0]['Id'][:12]} is still there")


def _adopted(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("docker.gone", "there is no such container")
    if _labels(state).get(names.LINEAGE) == operation.lineage:
        return succeeded("docker.adopted")
    return failed("docker.not_adopted", "the container belongs to another lineage")


def _running_already(operation: Operation, state: State) -> bool:
    return _of_generation(operation, state) and bool(state[0]["State"].get("Running"))


def _stopped_already(operation: Operation, state: State) -> bool:
    del operation
    return not state[0]["State"].get("Running") and not state[0]["State"].get("Restarting")


def _ours_already(operation: Operation, state: State) -> bool:
    return _labels(state).get(names.LINEAGE) == operation.lineage


def _never(operation: Operation, state: State) -> bool:
    del operation, state
    return False


EFFECTS: Mapping[StepKind, Effect] = {
    StepKind.CREATE: Effect(_is_last, _created),
    StepKind.START: Effect(_running_already, _started),
    StepKind.STOP: Effect(_stopped_already, _stopped),
    StepKind.RELOAD: Effect(_is_last, _reloaded),
    StepKind.DESTROY: Effect(_never, _destroyed),
    StepKind.ADOPT: Effect(_ours_already, _adopted),
}

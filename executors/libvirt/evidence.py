"""What a domain's state proves about an operation: one row for each effect (docs/effects.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from executors.driver import Operation
from executors.libvirt import names, observe
from executors.libvirt.metadata import Metadata
from executors.libvirt.observe import Seen
from executors.outcome import Outcome, failed, rejected, succeeded
from planner.plan import StepKind

_ADVICE = {
    "does not support virt type 'kvm'": "this machine offers no KVM: say accelerator: qemu, or take one that does",
    "no network with matching name": "make that network, or name another one, or a bridge, under domain.networks",
    "is not active": "start what it names (virsh net-start NAME for a network), and have it start with its host",
}
"""What to do, by words of libvirt's messages."""


@dataclass(frozen=True, slots=True)
class State:
    """The node's domain, and what it says of itself (None: it is a stranger's)."""

    seen: Seen
    ours: Metadata | None


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect's row: whether an operation was the one that left this state, and what a state proves."""

    replays: Callable[[Operation, State], bool]
    settled: Callable[[Operation, State | None], Outcome]


def settled(operation: Operation, state: State | None) -> Outcome:
    """The outcome that the state proves: succeeded, or failed (it did not come about)."""
    return EFFECTS[operation.effect].settled(operation, state)


def fenced(operation: Operation, state: State | None) -> Outcome | None:
    """Refuses another lineage, an older epoch, an older generation, and what is not ours; None: go on."""
    if state is None:
        return None
    ours = state.ours
    if ours is None:
        return stranger(operation.uid, state.seen.uuid)
    adopting = operation.effect is StepKind.ADOPT
    if ours.lineage != operation.lineage and not adopting:
        return rejected("libvirt.other_lineage", "the domain belongs to another state; adopt it first")
    # Of another lineage only what adopts comes here, and its epochs count from anew.
    if ours.epoch > operation.epoch and ours.lineage == operation.lineage:
        return rejected("libvirt.stale_epoch", f"epoch {operation.epoch} is fenced by {ours.epoch}")
    if ours.generation > operation.generation:
        return rejected(
            "libvirt.stale_generation", f"generation {operation.generation} is older than {ours.generation}"
        )
    return None


def refused(said: str, code: int) -> Outcome:
    """libvirt's own refusal, with what to do about those that say it to nobody but its authors."""
    advice = [do for words, do in _ADVICE.items() if words in said]
    return failed("libvirt.refused", "; ".join([said, *advice]), error=code)


def stranger(uid: str, uuid: str) -> Outcome:
    """Somebody else's domain has the node's name, or its UUID without our metadata."""
    return failed(
        "libvirt.name_taken",
        f"domain {uuid} has the name {names.domain(uid)} and is not ours; nothing was touched",
    )


def impossible(operation: Operation, state: State | None) -> Outcome | None:
    """Refuses what this state does not allow; None: go on."""
    if operation.effect is StepKind.RELOAD:
        return rejected(
            "libvirt.needs_restart",
            "a guest reads what it is given when it boots, and cannot be told to reload",
        )
    if state is None:
        return None if operation.effect is StepKind.CREATE else settled(operation, None)
    if operation.effect is StepKind.CREATE:
        return failed("libvirt.exists", f"domain {state.seen.uuid} of this node is still defined")
    if operation.effect is StepKind.DESTROY and state.seen.active:
        return rejected("libvirt.still_running", "a running domain is not removed")
    if operation.effect is StepKind.START and state.seen.active:
        return rejected("libvirt.running", f"it is {observe.words(state.seen)}")
    return None


def _is_last(operation: Operation, state: State) -> bool:
    """Whether the domain's metadata names this very operation and attempt."""
    ours = state.ours
    return ours is not None and (ours.operation, ours.attempt) == (operation.operation_id, operation.attempt)


def _of_generation(operation: Operation, state: State) -> bool:
    return state.ours is not None and state.ours.generation == operation.generation


def _created(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("libvirt.not_created", "there is no such domain")
    if _is_last(operation, state):
        return succeeded("libvirt.created", domain=state.seen.uuid)
    return failed("libvirt.not_created", "the domain there was defined by another operation")


def _started(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("libvirt.gone", "there is no such domain")
    if not _of_generation(operation, state):
        return failed("libvirt.not_started", "the domain there is of another generation")
    if state.seen.active:
        return succeeded("libvirt.started", instance=observe.instance(state.seen))
    return failed(
        "libvirt.not_started", f"it is {observe.words(state.seen)}", state=observe.words(state.seen)
    )


def _stopped(operation: Operation, state: State | None) -> Outcome:
    del operation
    if state is None:
        return succeeded("libvirt.gone", "there is no such domain, so nothing runs")
    if state.seen.active:
        return failed("libvirt.still_running", f"it is {observe.words(state.seen)}")
    return succeeded("libvirt.stopped", state=observe.words(state.seen))


def _reloaded(operation: Operation, state: State | None) -> Outcome:
    del operation, state
    return failed("libvirt.not_reloaded", "a domain is never told to reload")


def _destroyed(operation: Operation, state: State | None) -> Outcome:
    del operation
    if state is None:
        return succeeded("libvirt.gone")
    return failed("libvirt.not_removed", f"domain {state.seen.uuid} is still defined")


def _adopted(operation: Operation, state: State | None) -> Outcome:
    if state is None:
        return failed("libvirt.gone", "there is no such domain")
    if state.ours is not None and state.ours.lineage == operation.lineage:
        return succeeded("libvirt.adopted")
    return failed("libvirt.not_adopted", "the domain belongs to another lineage")


def _running_already(operation: Operation, state: State) -> bool:
    return _is_last(operation, state) and state.seen.active


def _stopped_already(operation: Operation, state: State) -> bool:
    del operation
    return not state.seen.active


def _ours_already(operation: Operation, state: State) -> bool:
    return state.ours is not None and state.ours.lineage == operation.lineage


def _never(operation: Operation, state: State) -> bool:
    del operation, state
    return False


EFFECTS: Mapping[StepKind, Effect] = {
    StepKind.CREATE: Effect(_is_last, _created),
    StepKind.START: Effect(_running_already, _started),
    StepKind.STOP: Effect(_stopped_already, _stopped),
    StepKind.RELOAD: Effect(_never, _reloaded),
    StepKind.DESTROY: Effect(_never, _destroyed),
    StepKind.ADOPT: Effect(_ours_already, _adopted),
}

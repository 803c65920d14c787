"""A simulated node with its record, and the host's rules over it: the same as the guarded script's."""

from __future__ import annotations

from dataclasses import dataclass, field

from executors.driver import Operation
from executors.outcome import Outcome, OutcomeState, failed, rejected, succeeded, unknown
from planner.plan import StepKind
from planner.spec import config_digest


@dataclass(slots=True)
class Done:
    """An operation as the record knows it. `state` is empty while it is only begun."""

    operation: str
    attempt: int
    effect: str
    request: str
    state: str = ""
    code: str = ""
    detail: str = ""


@dataclass(slots=True)
class Node:
    """One made-up node: record and process in one. JSON-shaped, so that a world can be kept in a file."""

    uid: str
    fleet: str = ""
    name: str = ""
    lineage: str = ""
    epoch: int = 0
    generation: int = 0
    version: str = ""
    digest: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    port: int | None = None
    placed: bool = False
    destroyed: bool = False
    want_running: bool = False
    instance: str | None = None
    started_at: str | None = None
    started_s: float = 0.0
    alive: bool = False
    paused: bool = False
    exit_code: int | None = None
    data_kept: bool = False
    past_lineage: str = ""
    past_epoch: int = 0
    last: Done | None = None
    past: list[Done] = field(default_factory=list)
    barred: list[tuple[str, int]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def recorded(self) -> bool:
        """Whether there is a record at all; a lookup may leave a bar without one."""
        return self.last is not None


def replay(node: Node, operation: Operation, request: str) -> Outcome | None:
    """The recorded answer for what was already done, a refusal, or None: it may go on."""
    last = node.last
    if last is not None and last.operation == operation.operation_id:
        if last.request != request:
            return rejected("host.other_request", f"operation {last.operation} was another request")
        if operation.attempt < last.attempt:
            return rejected("host.stale_attempt", f"attempt {last.attempt} of this operation came before")
        if last.state and (operation.attempt == last.attempt or last.state == OutcomeState.SUCCEEDED):
            return _answer(node, last)
        if not last.state and operation.attempt == last.attempt:
            return unknown("host.interrupted", "this attempt was begun before and cut off; look it up")
        return None
    before = _in_past(node, operation.operation_id)
    if before is not None:
        if not before.state and operation.attempt <= before.attempt:
            return rejected("host.superseded", "it was cut off, and another operation came after it")
        if before.state and (operation.attempt <= before.attempt or before.state == OutcomeState.SUCCEEDED):
            return _answer(node, before)
    return None


def refusal(node: Node, operation: Operation) -> Outcome | None:  # noqa: C901 - one rule after the other, as in the script
    """Why an effect is refused before anything happens, or None."""
    if any(op == operation.operation_id and operation.attempt <= attempt for op, attempt in node.barred):
        return rejected("host.barred", "a lookup found it not performed; a new attempt is needed")
    pre = operation.precondition
    again = node.last is not None and node.last.operation == operation.operation_id
    if not node.recorded:
        if pre is not None and pre.generation is not None:
            return rejected("host.precondition", "there is no record of this node on the host")
        return None
    if pre is not None and pre.generation is None and not again:
        return rejected("host.precondition", f"a record exists (generation {node.generation})")
    if node.lineage != operation.lineage:
        if operation.effect is not StepKind.ADOPT:
            return rejected("host.other_lineage", f"the node belongs to the state {node.lineage}")
        if node.past_lineage == operation.lineage and operation.epoch <= node.past_epoch:
            return rejected("host.stale_epoch", f"epoch {operation.epoch} is not above {node.past_epoch}")
    elif operation.epoch < node.epoch:
        return rejected("host.stale_epoch", f"epoch {operation.epoch} is older than {node.epoch}")
    if operation.generation < node.generation and operation.effect is not StepKind.ADOPT:
        return rejected(
            "host.stale_generation", f"generation {operation.generation} is older than {node.generation}"
        )
    if pre is not None and pre.generation is not None and not again:
        release = (node.version, node.digest)
        if pre.generation != node.generation:
            return rejected("host.precondition", f"generation {node.generation} is placed")
        if pre.release is not None and (pre.release.version, pre.release.digest) != release:
            return rejected("host.precondition", f"{node.version} ({node.digest}) is placed")
        if pre.config_digest is not None and pre.config_digest != config_digest(node.fields):
            return rejected("host.precondition", "the configuration is not the one that was expected")
    if node.destroyed and operation.effect is not StepKind.DESTROY:
        return rejected("host.destroyed", "this node was destroyed; its uid is not used again")
    return None


def begin(node: Node, operation: Operation, request: str) -> Done:
    """Marks the operation as under way."""
    if node.last is not None and node.last.operation != operation.operation_id:
        node.past.append(node.last)
    node.last = Done(operation.operation_id, operation.attempt, operation.effect.value, request)
    if operation.effect is StepKind.ADOPT and node.lineage != operation.lineage:
        node.past_lineage, node.past_epoch = node.lineage, node.epoch
    node.epoch, node.lineage = operation.epoch, operation.lineage
    return node.last


def lookup(node: Node, operation: Operation) -> Outcome:
    """What became of an operation, from the record; one without a trace is barred from then on."""
    last = node.last
    if last is not None and last.operation == operation.operation_id:
        if last.attempt > operation.attempt:
            return failed("host.superseded", f"attempt {last.attempt} came after it")
        if last.attempt == operation.attempt:
            return _answer(node, last) if last.state else _begun(node, last)
    before = _in_past(node, operation.operation_id)
    if before is not None and before.attempt == operation.attempt:
        if before.state:
            return _answer(node, before)
        return unknown("host.superseded", "it was cut off, and another operation came after it")
    node.barred.append((operation.operation_id, operation.attempt))
    return failed("host.not_performed", "the host has no trace of it, and will refuse it from now on")


def _begun(node: Node, last: Done) -> Outcome:
    """A simulated effect is cut off before anything happened, so the facts are those of before."""
    match last.effect:
        case "start":
            return failed("host.not_started", "it was cut off before anything was started")
        case "stop" if not node.alive:
            return succeeded("host.found", "the process has ended")
        case "stop":
            return failed("host.still_running", "it was cut off; the process runs")
        case "reload":
            return unknown("host.interrupted", "it was cut off; whether the signal was sent left no trace")
        case _:
            return failed("host.incomplete", "it was cut off; repeating it is harmless")


def _in_past(node: Node, operation: str) -> Done | None:
    return next((d for d in reversed(node.past) if d.operation == operation), None)


def _answer(node: Node, done: Done) -> Outcome:
    return Outcome(OutcomeState(done.state), done.code, done.detail, {"instance": node.instance})

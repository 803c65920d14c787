"""From a step to an operation, and from an outcome to what the ledger and the rollout know.

Intent and dispatch are recorded together, right before the call: nothing can happen between the two, so
they share one sync. The outcome and what it says of the node share another.
"""

from __future__ import annotations

from dataclasses import replace

from executors.outcome import Outcome, OutcomeState
from fleetctl.engine.asking import asked, record, request
from fleetctl.engine.events import Effect, Finish, Journal, Lookup, Perform, Performed, Report
from fleetctl.engine.progress import fail, halt, step_facts, succeed
from fleetctl.engine.rollout import Halt, NodeState, Rollout, Status, StepState
from fleetctl.ledger import entries
from fleetctl.ledger.operations import (
    ATTEMPTS_MAX,
    AdmissionRefused,
    By,
    Record,
    Request,
    State,
    Verdict,
    admit,
    move,
)
from manifests.errors import ExitCode
from planner.plan import StepKind

LOOKUP_DELAYS_S = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 5.0)
"""When a lost answer is looked for: soon, because most are there at once, and for 11 s in all, because a
script that still runs on the host needs time to end. After that a person has to look."""
DRAINING = frozenset({StepKind.PRE_DRAIN, StepKind.DRAIN})
"""Steps after which a node that still runs is not meant to serve."""
GOING_DOWN = DRAINING | {StepKind.STOP, StepKind.DESTROY}
PLACING = frozenset({StepKind.CREATE, StepKind.RELOAD, StepKind.ADOPT})


def dispatch(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    """Records intent and dispatch, and asks for the effect; what must not be dispatched fails its step."""
    node = state.node
    operation = asked(rollout, state)
    hashed = request(operation)
    previous, known = state.record, None
    if previous is not None and previous.operation_id == operation.operation_id:
        previous, known = None, previous
    try:
        verdict = admit(
            Request(
                operation.operation_id,
                operation.attempt,
                operation.uid,
                state.step.generation,
                hashed,
                operation.epoch,
            ),
            known,
            previous,
            node_generation=0 if node is None or state.step.kind is StepKind.ADOPT else node.generation,
            epoch=rollout.identity.epoch,
        )
    except AdmissionRefused as e:
        fail(rollout, state, e.message, out, now_s)
        return
    assert verdict in (Verdict.NEW, Verdict.DISPATCH), "what was sent before is looked up, not dispatched"
    state.asked = operation
    bodies = []
    if verdict is Verdict.NEW:
        state.record = record(rollout, state, operation, hashed)
        rollout.operations += 1
        bodies.append(entries.operation(state.record))
    bodies.append(entries.operation(_moved(rollout, state, State.DISPATCHED, By.ENGINE)))
    out.append(Journal(tuple(bodies)))
    _begin(rollout, state, now_s)
    text = f"{state.step.kind.value} begins"
    out.append(Report("step", state.step.node, text, now_s, step_facts(state, "begun")))
    out.append(Perform(state.key, state.step.host, operation))


def opens(state: StepState) -> bool:
    """Whether this step is the first of its node to take effect, or the one that takes it down."""
    if state.node is None:
        return False
    done = [s for s in state.node.steps if s.status is Status.DONE]
    return not done or (goes_down(state) and not any(goes_down(s) for s in done))


def goes_down(state: StepState) -> bool:
    """Whether a node does not serve after this step."""
    return state.step.disrupts or state.step.kind in GOING_DOWN


def look_up(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    """Takes up an operation that another process, now gone, had dispatched: its answer can only be looked up."""
    assert state.record is not None
    state.asked = asked(rollout, state)
    if state.record.state is State.DISPATCHED:
        moved = _moved(rollout, state, State.UNKNOWN, By.ENGINE, {"code": "engine.cut_off"})
        out.append(Journal((entries.operation(moved),)))
    _begin(rollout, state, now_s)
    out.append(Lookup(state.key, state.step.host, state.asked, now_s))


def on_performed(rollout: Rollout, event: Performed, out: list[Effect]) -> None:
    """An answer came, to the call or to a lookup."""
    state = rollout.steps[event.step]
    if state.status is not Status.RUNNING or state.attempt != event.attempt:
        return  # of an attempt that was settled before
    assert state.record is not None and state.asked is not None
    outcome, now_s = event.outcome, event.now_s
    if outcome.state is OutcomeState.UNKNOWN:
        _unknown(rollout, state, event, out)
        return
    if outcome.code.endswith(".stale_epoch"):
        _fenced(rollout, state, outcome, event.by, out)
        return
    to = State(outcome.state.value)
    if event.by is By.LOOKUP and to is State.REJECTED:
        to = State.FAILED  # what the lookup proves is that it was not performed
    moved = _moved(rollout, state, to, event.by, _evidence(outcome))
    bodies = [entries.operation(moved)]
    if to is State.SUCCEEDED:
        bodies += _performed(rollout, state, outcome, now_s)
    out.append(Journal(tuple(bodies)))
    if to is State.SUCCEEDED:
        _report(state, f"{state.step.kind.value} done", "done", out)
        succeed(rollout, state, out, now_s)
    elif moved.not_performed and event.by is By.LOOKUP and state.attempt < ATTEMPTS_MAX:
        if rollout.interrupted is not None:
            fail(rollout, state, "interrupted before it was performed", out, now_s)
            return
        # The evidence says that it never happened and that its late arrival is excluded: once more.
        state.attempt += 1
        if opens(state):
            rollout.undo(state, now_s)  # through the gate again: the floors may have changed meanwhile
        else:
            rollout.running.pop(state.key)
            dispatch(rollout, state, out, now_s)
    else:
        if outcome.code.endswith(".precondition"):
            halt(rollout, Halt("stale", ExitCode.STALE, f"{state.step.node}: {outcome.detail}"), out)
        fail(rollout, state, outcome.detail or outcome.code, out, now_s)


def enter(rollout: Rollout, state: StepState, node: NodeState, now_s: float) -> None:
    """A step of this node begins, or is known to have begun."""
    rollout.enter(node)
    node.touched = True
    if goes_down(state):
        rollout.disrupt(node, now_s)


def left(rollout: Rollout, state: StepState) -> Record:
    """The operator told us to leave: nobody hears the answer of what is under way."""
    return _moved(rollout, state, State.UNKNOWN, By.ENGINE, {"code": "engine.left"})


def _begin(rollout: Rollout, state: StepState, now_s: float) -> None:
    if state.node is not None:
        enter(rollout, state, state.node, now_s)
    state.status, state.begun_s, state.lookups = Status.RUNNING, now_s, 0
    rollout.running[state.key] = state


def _unknown(rollout: Rollout, state: StepState, event: Performed, out: list[Effect]) -> None:
    assert state.asked is not None and state.record is not None
    if state.record.state is State.DISPATCHED:
        moved = _moved(rollout, state, State.UNKNOWN, By.ANSWER, _evidence(event.outcome))
        out.append(Journal((entries.operation(moved),)))
        _report(state, f"{state.step.kind.value}: the answer was lost; looking it up", "lost", out)
    if state.lookups < len(LOOKUP_DELAYS_S):
        delay_s = LOOKUP_DELAYS_S[state.lookups]
        state.lookups += 1
        out.append(Lookup(state.key, state.step.host, state.asked, event.now_s + delay_s))
        return
    state.status = Status.UNSETTLED
    state.error = event.outcome.detail or event.outcome.code
    rollout.running.pop(state.key)
    rollout.unsettled[state.key] = state
    reason = f"{state.step.node or rollout.identity.fleet}: what became of {state.step.kind.value} is unknown ({state.error})"
    halt(rollout, Halt("unknown", ExitCode.UNKNOWN, reason), out)


def _fenced(rollout: Rollout, state: StepState, outcome: Outcome, by: By, out: list[Effect]) -> None:
    """The host has seen a newer epoch: somebody else rolls this fleet, and we must not even write."""
    del state, by
    rollout.finished = True
    summary = f"another run has taken over fleet {rollout.identity.fleet}: {outcome.detail}"
    out.append(Finish("fenced", ExitCode.LOCKED, summary, settled=False))


def _performed(rollout: Rollout, state: StepState, outcome: Outcome, now_s: float) -> list[entries.Body]:
    """What a successful effect says of its node, for the ledger and for the rollout."""
    node, spec, kind = state.node, state.spec, state.step.kind
    if node is None or spec is None:
        return []
    instance = outcome.evidence.get("instance")
    if isinstance(instance, str) and instance:
        node.instance = instance
    if kind is StepKind.START:
        node.running = True
        node.serves_again()
    elif kind in DRAINING:
        node.withdrawn, node.drained = True, node.drained or kind is StepKind.DRAIN
    elif kind is StepKind.STOP:
        node.running = False
    elif kind is StepKind.DESTROY:
        node.running = False
        if node.steps[-1] is state:
            rollout.remove_node(node, now_s)
            return [entries.node_gone(node.uid)]
    elif kind in PLACING:
        node.generation, node.spec = state.step.generation, spec
        return [entries.node_placed(node.uid, node.name, node.group, node.generation, spec)]
    return []


def _moved(
    rollout: Rollout, state: StepState, to: State, by: By, evidence: dict[str, str | int | None] | None = None
) -> Record:
    assert state.record is not None
    state.record = replace(
        state.record,
        state=move(state.record.state, to, by),
        by=by,
        epoch=rollout.identity.epoch,
        evidence=evidence or {},
    )
    return state.record


def _evidence(outcome: Outcome) -> dict[str, str | int | None]:
    evidence: dict[str, str | int | None] = {k: v for k, v in outcome.evidence.items() if v is not None}
    if outcome.code:
        evidence["code"] = outcome.code
    if outcome.detail:
        evidence["detail"] = outcome.detail
    return evidence


def _report(state: StepState, text: str, how: str, out: list[Effect]) -> None:
    out.append(Report("step", state.step.node, text, facts=step_facts(state, how)))

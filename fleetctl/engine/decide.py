"""The engine's brain: an event in, effects out. It acts on nothing, asks no clock, and can be replayed."""

from __future__ import annotations

import heapq
from dataclasses import asdict

from fleetctl.engine import controls, operate, standing, verify
from fleetctl.engine.conclude import conclude
from fleetctl.engine.events import (
    Controlled,
    Effect,
    Event,
    Examined,
    Finish,
    Journal,
    Performed,
    Probed,
    Report,
    Sampled,
    Signalled,
    Stage,
    Staged,
    Started,
    Ticked,
    Told,
    Wake,
)
from fleetctl.engine.gates import begin_what_may, want_sample
from fleetctl.engine.progress import fail, halt, step_facts, succeed
from fleetctl.engine.rollout import Halt, Rollout, Status, StepState
from fleetctl.ledger import entries
from fleetctl.ledger.operations import State
from manifests.errors import ExitCode
from planner.observed import Snapshot
from planner.plan import StepKind
from planner.sight import withdrawn


def on_event(rollout: Rollout, event: Event) -> list[Effect]:
    """What is to be done now that this has happened. Entries come before the effects that they announce."""
    out: list[Effect] = []
    if rollout.finished:
        return out
    rollout.now_s = event.now_s
    match event:
        case Started():
            _started(rollout, out, event.now_s)
        case Staged() | Told():
            _staged(rollout, event, out)
        case Performed():
            operate.on_performed(rollout, event, out)
        case Probed():
            verify.on_probed(rollout, event, out)
        case Sampled():
            _sampled(rollout, event, out)
        case Signalled():
            _signalled(rollout, event, out)
        case Controlled():
            controls.on_controlled(rollout, event.verb, event.who, out)
        case Examined():
            _examined(rollout, event, out)
        case Ticked():
            pass
    if not rollout.finished:
        _go(rollout, out, event.now_s)
    standing.tell(rollout, out)
    return out


def _started(rollout: Rollout, out: list[Effect], now_s: float) -> None:
    rollout.progress_s = now_s
    for state in list(rollout.steps.values()):
        if state.status is Status.WAITING and state.record is not None and not state.record.final:
            if state.record.state is State.INTENDED:
                operate.dispatch(rollout, state, out, now_s)
            else:
                operate.look_up(rollout, state, out, now_s)
        elif state.status is Status.WAITING and state.waits == 0:
            rollout.enqueue(state)


def _staged(rollout: Rollout, event: Staged | Told, out: list[Effect]) -> None:
    state = rollout.steps[event.step]
    if state.status is not Status.RUNNING:
        return
    if isinstance(event, Told):
        out.append(Report("answer", None, event.text, facts={"host": state.step.host}))
    elif event.error is None:
        succeed(rollout, state, out, event.now_s)
    else:
        fail(rollout, state, event.error, out, event.now_s)


def _examined(rollout: Rollout, event: Examined, out: list[Effect]) -> None:
    rollout.examining -= 1
    found = event.evidence
    ended = "" if found.exit_code is None else f", exit status {found.exit_code}"
    detail = f": {found.detail}" if found.detail else ""
    text = f"it is {found.state or 'not to be seen'}{ended}{detail}"
    out.append(Report("evidence", event.node, text, facts=asdict(found)))


def _sampled(rollout: Rollout, event: Sampled, out: list[Effect]) -> None:
    rollout.sampling, rollout.sample_at_s = False, None
    rollout.sampled_s, rollout.looked_s = event.begun_s, event.now_s
    absorb(rollout, event.snapshot, event.begun_s)
    verify.on_sampled(rollout, event.begun_s, out, event.now_s)
    rollout.dirty = True


def absorb(rollout: Rollout, snapshot: Snapshot, begun_s: float) -> None:
    """Takes in what was seen. A node on a host that did not answer is not available, and not absent either."""
    seen = {}
    silent = set()
    for host in snapshot.hosts:
        if not host.reachable:
            silent.add(host.name)
        for node in host.nodes:
            seen[node.uid] = node
    for uid, state in rollout.nodes.items():
        if state.gone:
            continue
        found = seen.get(uid)
        if found is None and state.host in silent:
            state.unseen = True
            rollout.set_available(state, False, begun_s)
            continue
        state.unseen = False
        if begun_s >= state.fact_s:
            state.observed = found
            if not state.under_way:
                state.running = found is not None and found.live
        if found is not None and state.withdrawn_at and not withdrawn(state.withdrawn_at, found):
            state.serves_again()
        available = found is not None and found.available and not state.drained
        # While steps of ours are under way, only the verify step may say that it is back.
        if not available or not state.under_way:
            rollout.set_available(state, available, begun_s)


def _signalled(rollout: Rollout, event: Signalled, out: list[Effect]) -> None:
    if rollout.interrupted is None:
        rollout.interrupted = event.exit_code
        out.append(
            Report("halt", None, "interrupted: finishing the steps under way; once more to leave them")
        )
        for state in list(rollout.running.values()):
            if state.step.kind is StepKind.VERIFY:
                rollout.running.pop(state.key)  # it only looks, so there is nothing to finish
        return
    bodies = []
    left = [s for s in rollout.running.values() if s.record is not None]
    for state in left:
        if state.record is not None and state.record.state is State.DISPATCHED:
            record = operate.left(rollout, state)
            bodies.append(entries.operation(record))
    if bodies:
        out.append(Journal(tuple(bodies)))
    rollout.finished = True
    names = ", ".join(sorted({s.step.node or s.step.host for s in left})) or "nothing"
    out.append(Finish("unknown", ExitCode.UNKNOWN, f"left in the middle: {names}", settled=not left))


def _go(rollout: Rollout, out: list[Effect], now_s: float) -> None:
    """Everything that follows from the present state: timers, steps that may go on or begin, the end."""
    while True:
        _timers(rollout, out, now_s)
        _continue(rollout, out, now_s)
        if rollout.may_begin:
            begin_what_may(rollout, out, now_s)
        if rollout.go_on and rollout.interrupted is None:
            continue
        _no_progress(rollout, out, now_s)
        if conclude(rollout, out, now_s):
            return
        if not rollout.go_on or rollout.interrupted is not None:
            break  # otherwise it has turned back, and that begins now
    _wake(rollout, out)


def _continue(rollout: Rollout, out: list[Effect], now_s: float) -> None:
    """Steps of nodes that were begun go on, also while the rollout stops: a node is not left half-way."""
    while rollout.go_on and rollout.interrupted is None:
        state = rollout.go_on.popleft()
        if state.status is not Status.WAITING:
            continue
        if state.step.kind is StepKind.STAGE:
            if rollout.may_begin:
                _stage(rollout, state, out, now_s)
        elif state.step.kind is StepKind.VERIFY:
            verify.begin(rollout, state, out, now_s)
        elif state.node is not None or rollout.may_begin:
            operate.dispatch(rollout, state, out, now_s)


def _stage(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    assert state.spec is not None
    state.status, state.begun_s = Status.RUNNING, now_s
    rollout.running[state.key] = state
    pin, *more = state.spec.pins
    text = f"bringing {pin.name} to {state.step.host}"
    out.append(Report("step", None, text, now_s, step_facts(state, "begun")))
    out.append(Stage(state.key, state.step.host, state.spec.substrate, pin, tuple(more)))


def _timers(rollout: Rollout, out: list[Effect], now_s: float) -> None:
    while rollout.timers and rollout.timers[0][0] <= now_s:
        _, _, kind, key, serial = heapq.heappop(rollout.timers)
        state = rollout.steps[key]
        if key not in rollout.running:
            continue
        if kind == "deadline":
            verify.on_deadline(rollout, state, out, now_s)
        elif state.serial == serial:
            verify.ask(state, out)
    if rollout.sample_at_s is not None and rollout.sample_at_s <= now_s:
        rollout.sample_at_s = None
        if rollout.begin and rollout.may_begin:
            want_sample(rollout, out)


def _no_progress(rollout: Rollout, out: list[Effect], now_s: float) -> None:
    limit_s = rollout.plan.rollout.progress_deadline_ms / 1000
    if now_s - rollout.progress_s < limit_s or not rollout.may_begin:
        return
    if rollout.reverting:
        rollout.gave_up = True
        out.append(Report("halt", None, f"the way back is given up: no progress for {limit_s:.0f} s"))
    else:
        what = f" ({rollout.blocked})" if rollout.blocked else ""
        reason = f"no node became healthy for {limit_s:.0f} s{what}"
        halt(rollout, Halt("failed", ExitCode.FAILED, reason), out)


def _wake(rollout: Rollout, out: list[Effect]) -> None:
    times = []
    if rollout.may_begin:
        times.append(rollout.progress_s + rollout.plan.rollout.progress_deadline_ms / 1000)
    if rollout.timers:
        times.append(rollout.timers[0][0])
    if rollout.sample_at_s is not None:
        times.append(rollout.sample_at_s)
    if times:
        out.append(Wake(min(times)))

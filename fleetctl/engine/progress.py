"""What follows when a step succeeds, fails, or nothing new may be begun: pure bookkeeping of the rollout."""

from __future__ import annotations

from typing import Any

from executors.health import described as probe_words
from fleetctl.engine.events import Effect, Examine, Journal, Report
from fleetctl.engine.rollout import Halt, NodeState, Rollout, Status, StepState
from fleetctl.ledger import entries
from manifests.errors import ExitCode
from planner.plan import HOOKS, StepKind


def succeed(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    """A step is done: what waited for it may follow, and a node whose last step it was counts again."""
    _end(rollout, state, Status.DONE)
    node = state.node
    if node is None:
        rollout.progress_s = now_s  # artifacts are brought before the clock of the nodes runs
        if state.step.kind is StepKind.STAGE:
            out.append(Report("step", None, f"brought to {state.step.host}", facts=step_facts(state, "done")))
    else:
        if state.step.kind is StepKind.VERIFY:
            _healthy(rollout, state, node, out, now_s)
        if node.steps[-1] is state:
            rollout.leave(node)
            rollout.progress_s = now_s
    for dependent in state.dependents:
        dependent.waits -= 1
        if dependent.waits == 0 and dependent.status is Status.WAITING:
            rollout.enqueue(dependent)
    _advance_phase(rollout, out)


def fail(rollout: Rollout, state: StepState, why: str, out: list[Effect], now_s: float) -> None:
    """A step has failed: its node is given up, and the failure counts over the whole rollout."""
    state.error = why
    rollout.sample_after_s = now_s
    _end(rollout, state, Status.FAILED)
    name = state.step.node or state.step.host
    text = f"{state.step.kind.value} on {state.step.host} failed: {why}"
    out.append(Report("failed", state.step.node, text, facts=_failed_facts(state, why, now_s)))
    _examine(rollout, state, out)
    if state.node is None:
        what = f"{state.step.kind.value} on {state.step.host}: {why}"
        _fail_dependents(rollout, state, what)
        rollout.phase_failed = rollout.phase_failed or what
        if state.step.kind in HOOKS:
            halt(rollout, Halt("failed", ExitCode.FAILED, what), out)
    else:
        _fail_node(rollout, state.node, why)
    if rollout.reverting:
        rollout.revert_failed = True
    elif rollout.failures > rollout.plan.rollout.max_failures:
        allowed = rollout.plan.rollout.max_failures
        bound = "" if allowed == 0 else f" ({rollout.failures} failures, {allowed} allowed)"
        halt(rollout, Halt("failed", ExitCode.FAILED, f"{name}: {why}{bound}"), out)
    _advance_phase(rollout, out)


def step_facts(state: StepState, how: str) -> dict[str, Any]:
    """What a step's reports say for machines; `how` is begun, done or lost."""
    step = state.step
    facts: dict[str, Any] = {"step": step.kind.value, "host": step.host, "state": how}
    if step.node is not None:
        facts |= {"generation": step.generation, "attempt": state.attempt}
    return facts


def _failed_facts(state: StepState, why: str, now_s: float) -> dict[str, Any]:
    facts: dict[str, Any] = {"step": state.step.kind.value, "host": state.step.host, "why": why}
    if state.step.kind is StepKind.VERIFY and state.spec is not None:
        waited_s = round(now_s - state.begun_s, 3)
        facts |= {"probe": probe_words(state.spec), "answer": state.last_answer, "waited_s": waited_s}
    return facts


def _examine(rollout: Rollout, state: StepState, out: list[Effect]) -> None:
    """Has a look at what the failed node has left, before a way back replaces it. A node that was never
    touched has left nothing, and more than a few fail for the same reason.
    """
    node = state.node
    if node is None or not node.touched or state.spec is None or rollout.examined >= EXAMINED_MAX:
        return
    rollout.examined += 1
    rollout.examining += 1
    out.append(Examine(node.name, node.uid, state.step.host, state.spec))


def halt(rollout: Rollout, reason: Halt, out: list[Effect]) -> None:
    """Nothing new is begun from here on; the gravest reason is the one that is told."""
    before = rollout.halt
    if rollout.reverting and reason.result == "unknown":
        rollout.gave_up = True
    if before is None or _GRAVITY.index(reason.result) > _GRAVITY.index(before.result):
        rollout.halt = reason
    if before is None:
        facts = {"result": reason.result}
        out.append(Report("halt", None, f"stopping: {reason.reason}", facts=facts))


def canary_done(rollout: Rollout, out: list[Effect]) -> None:
    """The canary is healthy: it bakes, and a person is asked where the plan says so."""
    settings = rollout.plan.rollout
    if settings.promotion == "manual" and not rollout.promoted:
        rollout.paused, rollout.waits_for_promotion = WAITS_FOR_PROMOTION, True
        return
    if settings.bake_ms:
        rollout.hold_until_s = rollout.now_s + settings.bake_ms / 1000
        text = f"the canary is healthy and bakes for {settings.bake_ms / 1000:g} s"
        out.append(Report("wait", None, text, since_s=rollout.now_s))


EXAMINED_MAX = 3
"""Failed nodes whose place is asked what they have left; more fail for the same reason."""
WAITS_FOR_PROMOTION = "the canary is healthy; waiting for `fleetctl promote`"
_GRAVITY = ("aborted", "failed", "stale", "unknown")


def _healthy(rollout: Rollout, state: StepState, node: NodeState, out: list[Effect], now_s: float) -> None:
    node.healthy = True
    rollout.set_available(node, True, now_s)
    out.append(Journal((entries.node_healthy(node.uid, state.step.generation, state.key),)))
    took_s = now_s - state.begun_s
    answer = state.last_answer or "running"
    facts = {"took_s": round(took_s, 3), "answer": answer}
    out.append(Report("healthy", node.name, f"healthy after {took_s:.1f} s ({answer})", facts=facts))


def _end(rollout: Rollout, state: StepState, status: Status) -> None:
    state.status = status
    rollout.running.pop(state.key, None)
    rollout.pending[state.step.phase] -= 1


def _fail_node(rollout: Rollout, node: NodeState, why: str) -> None:
    if not node.failed:
        node.failed = why
        rollout.failures += 1
        rollout.phase_failed = rollout.phase_failed or f"{node.name}: {why}"
    for other in node.steps:
        if other.status is Status.WAITING:
            _end(rollout, other, Status.SKIPPED)
            _fail_dependents(rollout, other, why)
    rollout.leave(node)


def _fail_dependents(rollout: Rollout, state: StepState, why: str) -> None:
    """What waits for a step that will never be done is not done either; a host's failure fails its nodes."""
    for dependent in state.dependents:
        if dependent.status is not Status.WAITING:
            continue
        if dependent.node is not None and not dependent.node.failed:
            _fail_node(rollout, dependent.node, why)
        elif dependent.status is Status.WAITING:
            _end(rollout, dependent, Status.SKIPPED)
            _fail_dependents(rollout, dependent, why)


def _advance_phase(rollout: Rollout, out: list[Effect]) -> None:
    """The next phase begins when all steps of the lower ones are settled.

    A failure that is within the allowed number still ends a rolling rollout at the border of its phase
    (a canary that failed has said what it was there to say); a full one goes on, because everything is down.
    """
    while rollout.phases and rollout.pending[rollout.phases[0]] == 0:
        rollout.phases.pop(0)
        if not rollout.phases:
            return
        if rollout.phase_failed and rollout.plan.rollout.strategy != "full" and not rollout.reverting:
            halt(rollout, Halt("failed", ExitCode.FAILED, rollout.phase_failed), out)
        if rollout.phase == rollout.plan.rollout.canary_phase and not rollout.phase_failed:
            canary_done(rollout, out)
        rollout.phase_failed = ""
        rollout.phase = rollout.phases[0]
        for state in rollout.parked.pop(rollout.phase, ()):
            if state.status is Status.WAITING:
                rollout.enqueue(state)


def skip_node(rollout: Rollout, node: NodeState) -> None:
    """None of the node's steps is begun any more; it stays as it is."""
    for state in node.steps:
        if state.status is Status.WAITING:
            _end(rollout, state, Status.SKIPPED)

"""When a node counts again: `success` probes in a row, then `min_ready` without a failure, before the deadline."""

from __future__ import annotations

from executors.driver import ProbeTarget
from executors.health import described as probe_words
from fleetctl.engine.events import Effect, Probe, Probed, Report
from fleetctl.engine.gates import want_sample
from fleetctl.engine.progress import fail, step_facts, succeed
from fleetctl.engine.rollout import Rollout, Status, StepState
from planner.observed import HealthState, NodeState

LOOK_AGAIN_S = 1.0
"""How often to look whether a node that answers no probe still runs at all."""
GOOD = (HealthState.PASSING, HealthState.NONE)
# It ended by itself; that its substrate starts it again does not make it what was asked for.
_ENDED = (NodeState.EXITED, NodeState.RESTARTING)


def begin(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    """Starts to ask."""
    node = state.node
    assert node is not None
    rollout.enter(node)
    state.status, state.begun_s = Status.RUNNING, now_s
    state.deadline_s = now_s + state.step.deadline_ms / 1000
    rollout.running[state.key] = state
    rollout.timer(state.deadline_s, "deadline", state.key)
    facts = step_facts(state, "begun") | {"deadline_s": state.step.deadline_ms / 1000}
    if state.spec is not None:
        facts["probe"] = probe_words(state.spec)
    out.append(Report("step", node.name, "waiting for health", now_s, facts))
    ask(state, out)


def ask(state: StepState, out: list[Effect]) -> None:
    """One more probe."""
    node = state.node
    assert node is not None and state.spec is not None
    state.serial += 1
    target = ProbeTarget(node.uid, state.spec, node.instance)
    out.append(Probe(state.key, state.serial, state.step.host, state.spec.substrate, target))


def on_probed(rollout: Rollout, event: Probed, out: list[Effect]) -> None:
    """An answer came."""
    state = rollout.steps[event.step]
    if state.status is not Status.RUNNING or state.serial != event.serial:
        return
    assert state.spec is not None
    health, now_s = state.spec.health, event.now_s
    good = event.result.state in GOOD
    if event.result.detail != state.last_answer:
        passed = state.passed + 1 if good else 0
        facts = {"state": event.result.state.value, "passed": passed, "wanted": health.success}
        out.append(Report("answer", state.step.node, event.result.detail, facts=facts))
    state.last_answer = event.result.detail
    wait_s = health.interval / 1000
    if good:
        state.passed += 1
        if state.passed >= health.success and state.passed_s is None:
            state.passed_s = now_s
        if state.passed_s is not None:
            left_s = state.passed_s + health.min_ready / 1000 - now_s
            if left_s <= 0:
                succeed(rollout, state, out, now_s)
                return
            wait_s = min(wait_s, left_s)
    else:
        state.passed, state.passed_s = 0, None
        if now_s - rollout.looked_s > LOOK_AGAIN_S:
            want_sample(rollout, out)  # it may have ended by itself, and then no probe will ever pass
    rollout.timer(now_s + wait_s, "probe", state.key, state.serial)


def on_deadline(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    """It took too long."""
    waited_s = now_s - state.begun_s
    probe = "" if state.spec is None else f" ({probe_words(state.spec)})"
    last = f"; the last answer was: {state.last_answer}" if state.last_answer else "; it never answered"
    fail(rollout, state, f"not healthy after {waited_s:.0f} s{probe}{last}", out, now_s)


def on_sampled(rollout: Rollout, begun_s: float, out: list[Effect], now_s: float) -> None:
    """A node that has ended by itself does not become healthy: no need to wait for the deadline."""
    for state in list(rollout.running.values()):
        node = state.node
        if node is None or node.observed is None or state.status is not Status.RUNNING:
            continue
        if state.asked is not None or begun_s <= state.begun_s:
            continue
        seen = node.observed
        if seen.state in _ENDED and seen.generation == state.step.generation:
            code = "" if seen.exit_code is None else f" with exit status {seen.exit_code}"
            detail = f": {seen.detail}" if seen.detail else ""
            fail(rollout, state, f"it ended by itself{code}{detail}", out, now_s)

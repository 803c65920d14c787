"""Draining by a call to the node, and how its end is seen; the signal that follows is the stop's own business.

The call is made once. Where its answer is lost, only `until` can tell; without it the outcome stays unknown.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable

from executors import health
from executors.clock import Clock
from executors.driver import Operation, ProbeResult, ProbeTarget
from executors.outcome import Outcome, OutcomeState, failed, succeeded, unknown
from executors.transport import OutcomeLost, Transport, TransportError
from manifests.schema.fleet import DrainCall
from planner.observed import HealthState
from planner.spec import NodeSpec

AGAIN_S = 0.2
"""How long after one look at the draining node the next one follows."""
Ask = Callable[[ProbeTarget], ProbeResult]


def drain(operation: Operation, begin: Callable[[], Outcome], ask: Ask, clock: Clock) -> Outcome:
    """Begins the drain, and waits until it is over or its timeout has passed, which is no failure."""
    until_s = clock.monotonic() + operation.spec.drain.timeout / 1000
    said = begin()
    target = _watched(operation)
    if target is None or said.state in (OutcomeState.FAILED, OutcomeState.REJECTED):
        return said
    while (answer := ask(target)).state is not HealthState.PASSING:
        if clock.monotonic() >= until_s:
            if not said.final:
                return said
            waited = f"it did not drain within {operation.spec.drain.timeout / 1000:g} s"
            return succeeded("drain.timed_out", f"{waited} ({answer.detail}); it is stopped all the same")
        clock.sleep(AGAIN_S)
    return succeeded("drain.drained", answer.detail)


def drained(operation: Operation, ask: Ask) -> Outcome:
    """What became of a drain whose answer was lost: as `until` sees the node now."""
    target = _watched(operation)
    if target is None:
        return unknown("drain.no_trace", "a call to the node leaves no trace that could be looked up")
    answer = ask(target)
    if answer.state is HealthState.PASSING:
        return succeeded("drain.found", answer.detail)
    return unknown("drain.not_yet", f"it has not drained ({answer.detail})")


def by_command(answer: ProbeResult) -> Outcome:
    """The outcome of a drain's command that was run as a probe's is."""
    if answer.state is HealthState.PASSING:
        return succeeded("drain.asked", answer.detail)
    if answer.state is HealthState.UNKNOWN:
        return unknown("drain.no_answer", answer.detail)
    return failed("drain.refused", answer.detail)


def by_http(transport: Transport, spec: NodeSpec, call: DrainCall) -> Outcome:
    """Makes the drain's request. What cannot be connected to was sent nothing."""
    timeout_s = spec.drain.timeout / 1000
    try:
        stream = health.connected(transport, spec, call.port, timeout_s)
    except (TransportError, OutcomeLost) as e:
        return failed(e.code, f"the host did not answer: {e.message}", performed=0)
    except OSError as e:
        return failed("drain.refused", health.said(e), performed=0)
    try:
        with stream:
            answer = health.exchange(stream, spec.address, call.method, call.path, timeout_s)
    except (OSError, http.client.HTTPException) as e:
        return unknown("drain.no_answer", health.said(e))
    good = answer.status == call.status if call.status is not None else 200 <= answer.status < 300
    return succeeded("drain.asked", answer.line) if good else failed("drain.refused", answer.whole)


def _watched(operation: Operation) -> ProbeTarget | None:
    """The node as `until` asks it, in the words of a health probe."""
    spec = operation.spec
    until = spec.drain.until
    if until is None:
        return None
    update = {"http": until.http, "tcp": None, "command": until.command, "container": None}
    asked = spec.health.model_copy(update=update)
    return ProbeTarget(operation.uid, spec.model_copy(update={"health": asked}))

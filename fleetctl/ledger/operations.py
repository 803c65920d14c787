"""Operations: the one transition table, the identity of an effect, and who may be dispatched.

    intended ── dispatched ──┬── succeeded | failed | rejected      (the driver's answer)
                             └── unknown ── succeeded | failed      (by lookup or by the operator only)

A move that is not in `TRANSITIONS` is illegal. Sources: seed 000, "Command rules" and "Consistency protocol".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from manifests.digest import canonical_json
from manifests.errors import ExitCode, FleetctlError

ATTEMPTS_MAX = 5
"""A step that was provably not performed five times is a fault of the place, not of luck."""


class State(StrEnum):
    """Where an operation is in its life."""

    INTENDED = "intended"
    DISPATCHED = "dispatched"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class By(StrEnum):
    """On whose word a state was entered."""

    ENGINE = "engine"  # our own doing: intent, dispatch, or the certainty that nothing was sent
    ANSWER = "answer"  # the driver's answer to the call
    LOOKUP = "lookup"  # evidence found on the substrate afterwards
    OPERATOR = "operator"  # a person who looked


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.REJECTED})

TRANSITIONS: Mapping[tuple[State, By], frozenset[State]] = {
    # An intent that was never dispatched may be withdrawn: nothing was sent, and the journal proves it.
    (State.INTENDED, By.ENGINE): frozenset({State.DISPATCHED, State.REJECTED}),
    (State.DISPATCHED, By.ANSWER): frozenset({State.SUCCEEDED, State.FAILED, State.REJECTED, State.UNKNOWN}),
    # The engine that dispatched it is gone, or was told to leave: nobody will hear the answer any more.
    (State.DISPATCHED, By.ENGINE): frozenset({State.UNKNOWN}),
    (State.UNKNOWN, By.LOOKUP): frozenset({State.SUCCEEDED, State.FAILED}),
    (State.UNKNOWN, By.OPERATOR): frozenset({State.SUCCEEDED, State.FAILED}),
}


class IllegalMove(FleetctlError):
    """That operation cannot go from this state to that one."""

    code = "operation.illegal_move"


class AdmissionRefused(FleetctlError):
    """The operation must not be given to a driver; `code` says which rule refuses it."""

    code = "operation.refused"
    exit_code = ExitCode.REFUSED


@dataclass(frozen=True, slots=True)
class Record:
    """What the journal knows of one operation. `step` names the step within its run (`17`, `revert:3`)."""

    operation_id: str
    attempt: int
    uid: str
    node: str
    generation: int
    effect: str
    request_sha256: str
    step: str
    run: str
    epoch: int
    state: State
    by: By
    evidence: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""

    @property
    def final(self) -> bool:
        return self.state in FINAL

    def about(self, fleet: str) -> str:
        """Whose effect it is: a node's, or the whole fleet's where it is about none."""
        return f"node/{fleet}/{self.node}" if self.node else f"fleet/{fleet}"

    @property
    def not_performed(self) -> bool:
        """Whether it is final, and known not to have been performed.

        Rejected means refused before anything happened. Failed counts where the substrate or a person said
        so afterwards, or where the driver itself says that nothing was sent (evidence `performed`: `no` or 0).
        """
        if self.state is State.REJECTED:
            return True
        looked = self.by in (By.LOOKUP, By.OPERATOR) or self.evidence.get("performed") in ("no", 0)
        return self.state is State.FAILED and looked


def move(current: State | None, to: State, by: By) -> State:
    """The state after a move; raises IllegalMove where the table has no such key."""
    if current is None:
        if to is State.INTENDED and by is By.ENGINE:
            return to
    elif to in TRANSITIONS.get((current, by), frozenset()):
        return to
    start = "nothing" if current is None else current.value
    raise IllegalMove(
        f"an operation cannot go from {start} to {to.value} by {by.value}",
        hint="the journal may be damaged: run `fleetctl audit verify`",
    )


def operation_id(plan_id: str, fleet: str, step: str, generation: int, attempt: int) -> str:
    """The identity of one attempt at one step: derived, so that a restarted process finds it again."""
    text = f"fleetctl/operation/{plan_id}/{fleet}/{step}/{generation}/{attempt}"
    return "op-" + hashlib.sha256(text.encode()).hexdigest()[:40]


def request_sha256(request: Mapping[str, Any]) -> str:
    """Lower-case hex SHA-256 of the RFC 8785 form of everything that the effect depends on."""
    return hashlib.sha256(canonical_json(dict(request))).hexdigest()


class Verdict(StrEnum):
    """What may be done with an operation that was asked for."""

    NEW = "new"  # nothing is recorded: record the intent
    DISPATCH = "dispatch"  # intended and never sent: send it
    LOOKUP = "lookup"  # sent, and the answer is open: look it up, never send again
    REPLAY = "replay"  # final: the recorded answer is the answer


@dataclass(frozen=True, slots=True)
class Request:
    """An operation that somebody wants performed now, under the epoch of the lease they hold."""

    operation_id: str
    attempt: int
    uid: str
    generation: int
    request_sha256: str
    epoch: int


def admit(
    request: Request,
    recorded: Record | None,
    previous: Record | None,
    *,
    node_generation: int,
    epoch: int,
) -> Verdict:
    """Decides before any driver is called; raises AdmissionRefused (seed 000, "Command rules").

    `recorded` is the journal's record of this id, `previous` that of the attempt before (attempt 2 and up),
    `node_generation` the newest generation recorded for the uid, `epoch` the newest one granted.
    The fence comes before the replay: an older epoch or generation is told so, not the stored outcome.
    """
    if request.epoch < epoch:
        raise AdmissionRefused(
            f"epoch {request.epoch} is fenced: {epoch} was granted since", code="operation.stale_epoch"
        )
    if request.generation < node_generation:
        raise AdmissionRefused(
            f"generation {request.generation} of {request.uid} is fenced: {node_generation} is recorded",
            code="operation.stale_generation",
        )
    if recorded is not None:
        if recorded.request_sha256 != request.request_sha256:
            raise AdmissionRefused(
                f"operation {request.operation_id} is bound to another request",
                hint="an operation id is never reused: plan again",
                code="operation.collision",
            )
        if recorded.final:
            return Verdict.REPLAY
        return Verdict.DISPATCH if recorded.state is State.INTENDED else Verdict.LOOKUP
    if request.attempt > ATTEMPTS_MAX:
        raise AdmissionRefused(
            f"{request.uid} has been tried {ATTEMPTS_MAX} times at this step", code="operation.exhausted"
        )
    if request.attempt > 1 and (previous is None or not previous.not_performed):
        raise AdmissionRefused(
            f"attempt {request.attempt} needs evidence that attempt {request.attempt - 1} was not performed",
            hint="look it up with `fleetctl recover`, or settle it with `fleetctl settle`",
            code="operation.attempt_open",
        )
    return Verdict.NEW


def diagram() -> str:
    """The transition table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.INTENDED.value}: {By.ENGINE.value}"]
    for (start, by), ends in TRANSITIONS.items():
        lines += [f"    {start.value} --> {end.value}: {by.value}" for end in sorted(ends)]
    lines += [f"    {state.value} --> [*]" for state in State if state in FINAL]
    return "\n".join(lines) + "\n"

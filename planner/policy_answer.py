"""The answer of a policy's program: bytes become findings. What is no answer is a finding itself, and refuses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from manifests.diagnostics import Diagnostic, Severity
from manifests.schema.base import Model
from planner.plan import PlannedPolicy
from planner.policy import finding

RULE = "program"
# More than this is no judgement that anybody reads.
ANSWER_MAX_B = 2**20
# Of what a program that failed has said: its end tells why.
SAID_MAX = 400


class Said(Model):
    """One finding of a program."""

    summary: str = Field(min_length=1)
    detail: str = ""
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"


class Answer(Model):
    """All that a program found; nothing is an empty list."""

    findings: tuple[Said, ...]


def answered(planned: PlannedPolicy, status: int, stdout: bytes, stderr: bytes) -> tuple[Diagnostic, ...]:
    """The findings of a program that ended with this status and outputs; it never raises."""
    program = _program(planned)
    if status != 0:
        return (failed(planned, f"{program} ended with status {status}.", stderr),)
    if len(stdout) > ANSWER_MAX_B:
        return (failed(planned, f"{program} answered with more than {ANSWER_MAX_B} bytes.", stderr),)
    try:
        answer = Answer.model_validate_json(stdout)
    except (ValidationError, RecursionError) as e:
        why = "it is nested too deeply"
        if isinstance(e, ValidationError):
            first = e.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            why = f"{where}: {first['msg']}" if where else first["msg"]
        return (failed(planned, f"{program} gave no answer that can be read: {why}.", stderr),)
    return tuple(
        finding(planned, RULE, said.summary, said.detail, said.hint, Severity(said.severity))
        for said in answer.findings
    )


def failed(planned: PlannedPolicy, why: str, stderr: bytes = b"") -> Diagnostic:
    """A program that gave no judgement: the plan is refused, since nobody knows what it would have found."""
    said = stderr.decode(errors="replace").strip()[-SAID_MAX:]
    return finding(
        planned,
        RULE,
        "A policy's program gave no judgement",
        why + (f"\nIt said: {said}" if said else ""),
        "a plan that was not judged is not carried out; run the program by hand: fleetctl plan --format json | PROGRAM",
    )


def _program(planned: PlannedPolicy) -> str:
    program = planned.document.rules.program
    assert program is not None, "only a policy with a program has its answer"
    return program.command[0]

"""How an effect ended, as far as anybody knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class OutcomeState(StrEnum):
    """succeeded, failed and rejected are final; unknown is settled by lookup or by the operator, never guessed.

    failed: the effect was tried, and did not come about. rejected: it was refused before anything happened.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An effect's outcome. `code` is stable (`host.stale_epoch`); `detail` is for people; `evidence` is JSON."""

    state: OutcomeState
    code: str = ""
    detail: str = ""
    evidence: Mapping[str, str | int | None] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        return self.state is not OutcomeState.UNKNOWN


def succeeded(code: str = "", detail: str = "", **evidence: str | int | None) -> Outcome:
    return Outcome(OutcomeState.SUCCEEDED, code, detail, evidence)


def failed(code: str, detail: str = "", **evidence: str | int | None) -> Outcome:
    return Outcome(OutcomeState.FAILED, code, detail, evidence)


def rejected(code: str, detail: str = "", **evidence: str | int | None) -> Outcome:
    return Outcome(OutcomeState.REJECTED, code, detail, evidence)


def unknown(code: str, detail: str = "", **evidence: str | int | None) -> Outcome:
    return Outcome(OutcomeState.UNKNOWN, code, detail, evidence)

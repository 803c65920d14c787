"""The root of every error that fleetctl raises on purpose.

    FleetctlError                    code, exit_code, hint
    ├── ManifestError                diagnostics with places          (exit 1)
    ├── TemplateError                a leaf text that does not render (exit 1)
    ├── RefusedError                 compatibility, budget            (exit 3)
    │   └── PolicyRefused            diagnostics with places          (exit 3)
    ├── StaleError                   plan stale, or not the approved  (exit 7)
    ├── executors.*                  TransportError, ArtifactError, … (exit 1)
    └── fleetctl.*                   StateError (1), LeaseHeld (6), UnknownOutcome (5), …

A programmer's mistake is an assertion, never one of these.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from manifests.diagnostics import Diagnostic

# Findings of the budget rules: 25% of 3 is refused when it is planned, as design section 4 has it.
REFUSED_CODES = "budget."
# A template may be a whole file's content; a message shows its beginning.
TEMPLATE_SHOWN_MAX = 200


class ExitCode(IntEnum):
    """What the process tells its caller; the one table of design section 5."""

    OK = 0
    ERROR = 1
    CHANGES = 2
    REFUSED = 3
    FAILED = 4
    UNKNOWN = 5
    LOCKED = 6
    STALE = 7
    WAITING = 8
    INTERRUPTED = 130
    TERMINATED = 143


class FleetctlError(Exception):
    """An operating error: what went wrong, for a person who has to act on it.

    Arguments: `message` says what and where; `hint` says what to do next.
    `code` is a stable dotted name for machines, `exit_code` ends the process.
    """

    code: str = "error"
    exit_code: ExitCode = ExitCode.ERROR

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class ManifestError(FleetctlError):
    """The manifests cannot be used; `diagnostics` has every finding of the run, each with its place."""

    code = "manifest.invalid"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        errors = [d for d in diagnostics if d.is_error]
        super().__init__(f"{len(errors)} error{'s' if len(errors) != 1 else ''} in the manifests")
        self.diagnostics = tuple(diagnostics)
        # What is understood and only asks for too much is refused; the rest is not understood.
        if errors and all(d.code.startswith(REFUSED_CODES) for d in errors):
            self.exit_code = ExitCode.REFUSED


class TemplateError(FleetctlError):
    """A leaf text cannot be rendered: `text` is the template as written, `reason` why not.

    The caller knows the place; the message has both.
    """

    code = "template.failed"

    def __init__(self, text: str, reason: str, *, hint: str | None = None, code: str | None = None) -> None:
        shown = text if len(text) <= TEMPLATE_SHOWN_MAX else text[: TEMPLATE_SHOWN_MAX - 1] + "…"
        super().__init__(f"{reason}, in {shown!r}", hint=hint, code=code)
        self.text = text
        self.reason = reason


class RefusedError(FleetctlError):
    """What was asked for is understood and refused: compatibility, budget or policy."""

    code = "refused"
    exit_code = ExitCode.REFUSED


class PolicyRefused(RefusedError):
    """Policies forbid the plan; `diagnostics` has what they found, each with its place."""

    code = "policy.refused"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        first = next(d for d in diagnostics if d.is_error)
        super().__init__(f"a policy refuses the plan: {first.summary}", hint=first.hint)
        self.diagnostics = tuple(diagnostics)


class StaleError(FleetctlError):
    """The plan does not describe the present any more, or is not the one that was approved."""

    code = "plan.stale"
    exit_code = ExitCode.STALE

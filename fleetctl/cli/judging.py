"""A plan's policies asked on the command line: what they find is told to stderr, as every finding is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetctl import bootstrap
from fleetctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from manifests.diagnostics import Diagnostic
    from planner.plan import Plan


def judged(
    invocation: Invocation, plan: Plan, command: str = "apply", *, approved: bool | None = None
) -> tuple[Diagnostic, ...]:
    """What the plan's policies find; `approved` None where the plan is only looked at."""
    if not plan.policies:
        return ()
    with invocation.timings.phase("policy"):
        return bootstrap.judge(invocation.clock, invocation.environ)(plan, command, approved=approved)


def tell(invocation: Invocation, found: Sequence[Diagnostic]) -> None:
    """Everything that was found, with its places."""
    if found:
        from fleetctl.cli.views.diagnostics import render_diagnostics

        invocation.terminal.say(render_diagnostics(found, invocation.terminal.err_paint))


def refused(
    invocation: Invocation, plan: Plan, command: str = "apply", *, approved: bool | None = None
) -> bool:
    """Whether some policy refuses the plan; tells everything that was found."""
    found = judged(invocation, plan, command, approved=approved)
    tell(invocation, found)
    return any(f.is_error for f in found)

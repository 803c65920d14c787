"""fleetctl rollback: undoes the newest rollout, node by node, by a plan like any other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.cli.propose import Proposal


@click.command(short_help="Go back to what was last healthy before the newest rollout.")
@options.manifest_options
@options.state_options
@click.option(
    "--fleet",
    default=None,
    metavar="NAME",
    shell_complete=completion.fleets,
    help="Which fleet, where the manifests have several.",
)
@click.option("--accept-downtime", is_flag=True, help="Allow a way back that is declared full.")
@options.approve_option
@options.events_option
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    parallelism: int | None,
    fleet: str | None,
    accept_downtime: bool,
    auto_approve: bool,
) -> int:
    """Take each node that the newest rollout changed back to what it was last healthy with before.

    A run that finished what a failed one had begun is one rollout with it.

    That is its whole specification: release, command, environment, files, references to secrets. The way back
    is judged and budgeted like any other plan. Artifacts and files are checked before a node is touched. The
    manifests stay as they are: change them too, or the next apply goes forward again.
    """
    from fleetctl.cli import approval, carry_out, cut_off, judging
    from fleetctl.cli.propose import Asked, propose
    from fleetctl.cli.views import plan_text
    from fleetctl.engine.apply import apply

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    proposal = propose(invocation, wanted, settings, Asked(accept_downtime=accept_downtime, back=fleet or ""))
    plan = proposal.plan
    cut_off.ensure_none(invocation, settings, [f.fleet for f in plan.fleets])
    _tell(invocation, proposal)
    terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    forbidden = judging.refused(invocation, plan, "rollback", approved=False)
    if plan.refused or forbidden:
        return ExitCode.REFUSED
    if plan.empty:
        return ExitCode.OK
    carry_out.check_files(plan)
    carry_out.fetch_artifacts(invocation, settings, plan)
    approval.approve_plan(terminal, plan, "Go back?", auto=auto_approve)
    code = carry_out.carry_out(invocation, settings, plan, lambda engine: apply(plan, engine, "rollback"))
    if code == ExitCode.OK:
        terminal.say("The manifests still want what was undone: change them before the next apply.")
    return code


def _tell(invocation: Invocation, proposal: Proposal) -> None:
    """What is undone, and what of it cannot be."""
    way = proposal.way
    assert way is not None, "a rollback was asked for"
    terminal = invocation.terminal
    fleet = way.runs[-1].fleet
    for run in way.runs:
        terminal.data(
            f"Undoes run {run.run} of fleet/{fleet}: {run.command} of {run.who}, begun {run.started_at}."
        )
    for node, why in way.stays:
        terminal.data(f"  stays as it is: node/{fleet}/{node}: {why}")

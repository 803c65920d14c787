"""fleetctl apply: shows a plan, asks, and carries it out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.settings import Settings
    from planner.plan import Plan


@click.command(short_help="Carry out a plan, after showing it and asking.")
@options.manifest_options
@options.state_options
@options.plan_options
@options.approved_option
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
    targets: tuple[str, ...],
    accept_downtime: bool,
    adopt: bool,
    approved: Path | None,
    auto_approve: bool,
) -> int:
    """Show a plan, ask, and carry it out.

    PATHS are manifests, or one saved plan: a file whose name does not end in .yaml or .yml. A saved plan
    needs no manifest and runs once; it refuses when what it touches has changed since. With --approved, what is
    planned or saved must do exactly what the approved plan does, whenever and wherever that was made.
    """
    from fleetctl.cli import cut_off, saved
    from fleetctl.cli.propose import Asked, propose

    if saved.is_plan(paths):
        given = bool(files or variables or var_files or targets or accept_downtime or adopt)
        if given:
            raise click.UsageError("a saved plan has its manifests, variables, targets and flags inside")
        plan, settings = saved.open_plan(invocation, paths[0], state, parallelism)
    else:
        wanted = options.sources(paths, files, variables, var_files)
        settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
        plan = propose(invocation, wanted, settings, Asked(targets, accept_downtime, adopt=adopt)).plan
    cut_off.ensure_none(invocation, settings, [f.fleet for f in plan.fleets])
    return act(invocation, settings, plan, approved, auto_approve=auto_approve)


def act(
    invocation: Invocation, settings: Settings, plan: Plan, approved: Path | None, *, auto_approve: bool
) -> int:
    """Shows, asks, and applies; with `approved` only what has the effects of that plan."""
    from fleetctl.cli import against, approval, carry_out, judging
    from fleetctl.cli.views import plan_text
    from fleetctl.engine.apply import apply

    terminal = invocation.terminal
    terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    genuine = None if approved is None else against.ensure_approved(invocation, plan, approved)
    forbidden = judging.refused(invocation, plan, approved=genuine is not None)
    if plan.refused or forbidden:
        return ExitCode.REFUSED
    if plan.empty:
        return ExitCode.OK
    approval.approve_plan(terminal, plan, "Carry this out?", auto=auto_approve)
    carry_out.check_files(plan)
    carry_out.fetch_artifacts(invocation, settings, plan)
    id_ = None if genuine is None else genuine.plan_id
    return carry_out.carry_out(invocation, settings, plan, lambda engine: apply(plan, engine, approval=id_))

"""fleetctl destroy: takes a fleet's nodes down, after asking for its name."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Take a fleet's nodes down, after asking for its name.")
@options.manifest_options
@options.state_options
@options.target_option
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
    approved: Path | None,
    auto_approve: bool,
) -> int:
    """Take down every node of the fleets of PATHS, after each fleet's name was typed.

    Data that is declared with `retain: true` stays on its host; what is lost is said before. `plan --destroy --out FILE` saves what it would do, for --approved.
    """
    from fleetctl.cli import against, approval, carry_out, cut_off, judging
    from fleetctl.cli.propose import Asked, propose
    from fleetctl.cli.views import plan_text
    from fleetctl.engine.apply import apply

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    plan = propose(invocation, wanted, settings, Asked(targets, destroy=True)).plan
    cut_off.ensure_none(invocation, settings, [f.fleet for f in plan.fleets])
    terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    genuine = None if approved is None else against.ensure_approved(invocation, plan, approved)
    forbidden = judging.refused(invocation, plan, "destroy", approved=genuine is not None)
    if plan.refused or forbidden:
        return ExitCode.REFUSED
    if plan.empty:
        return ExitCode.OK
    approval.approve_plan(terminal, plan, "Take them down?", auto=auto_approve)
    id_ = None if genuine is None else genuine.plan_id
    return carry_out.carry_out(invocation, settings, plan, lambda engine: apply(plan, engine, "destroy", id_))

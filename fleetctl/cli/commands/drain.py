"""fleetctl drain: cordons a host and stops its nodes within the budget."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Stop a host's nodes within the budget.")
@click.argument("host", metavar="HOST", shell_complete=completion.hosts)
@options.manifest_options
@options.state_options
@click.option("--accept-downtime", is_flag=True, help="Also where the floor would not be kept.")
@options.approve_option
@options.events_option
@click.pass_obj
def command(
    invocation: Invocation,
    host: str,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    parallelism: int | None,
    accept_downtime: bool,
    auto_approve: bool,
) -> int:
    """Cordon HOST, and stop the nodes that run there, one by one where the budget says so.

    They stay down and count against the budget, so all of them together have to fit into it; nothing is moved
    elsewhere. After `fleetctl uncordon HOST` the next apply starts them again.
    """
    from fleetctl.cli import approval, carry_out, cordoning, cut_off, judging
    from fleetctl.cli.propose import Asked, propose
    from fleetctl.cli.views import plan_text
    from fleetctl.engine.apply import apply

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    proposal = propose(invocation, wanted, settings, Asked(accept_downtime=accept_downtime, drain=host))
    plan = proposal.plan
    cordoning.ensure_known(proposal.manifests, host)
    cut_off.ensure_none(invocation, settings, [f.fleet for f in plan.fleets])
    terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    forbidden = judging.refused(invocation, plan, "drain", approved=False)
    if plan.refused or forbidden:
        return ExitCode.REFUSED
    approval.approve(terminal, f"Cordon and drain {host}?", auto=auto_approve)
    cordoning.mark(invocation, settings, proposal.manifests, host, cordoned=True)
    if plan.empty:
        return ExitCode.OK
    return carry_out.carry_out(invocation, settings, plan, lambda engine: apply(plan, engine, "drain"))

"""fleetctl plan: what apply would do, and the proof that it stays within the budget. Touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Show what apply would do; touches nothing.")
@options.manifest_options
@options.state_options
@options.plan_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the plan for apply.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes.")
@click.option(
    "--observed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A snapshot of `inventory --format json`, instead of looking at the hosts.",
)
@options.format_option("human", "json")
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
    out: Path | None,
    detailed_exitcode: bool,
    observed: Path | None,
    form: str,
) -> int:
    """Show what apply would do, in which order and why, and the lowest availability on the way.

    PATHS are files or folders of manifests; without any, the current folder. Nothing is touched, and
    nothing is created but the file of --out.
    """
    from fleetctl.cli import planfile
    from fleetctl.cli.propose import Asked, propose, tell_cut_off
    from fleetctl.cli.views import plan_text
    from planner.plan import encode

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    proposal = propose(
        invocation, wanted, settings, Asked(targets, accept_downtime, adopt=adopt, observed=observed)
    )
    plan = proposal.plan
    with invocation.timings.phase("write"):
        if out is not None:
            planfile.write(out, plan)
        if form == "json":
            terminal.data_bytes(encode(plan))
        else:
            terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    tell_cut_off(invocation, proposal.known)
    if out is not None and not plan.refused:
        terminal.say(f"Saved to {out}. Apply exactly this with: fleetctl apply {out}")
    if plan.refused:
        return ExitCode.REFUSED
    return ExitCode.CHANGES if detailed_exitcode and not plan.empty else ExitCode.OK

"""fleetctl plan: what apply would do, and the proof that it stays within the budget. Touches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from planner.plan import Plan


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
@click.option(
    "--via",
    is_flag=True,
    help="Where a transition is not declared, plan the declared path as consecutive rollouts.",
)
@options.format_option("human", "json", "markdown", "github")
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
    via: bool,
    form: str,
) -> int:
    """Show what apply would do, in which order and why, and the lowest availability on the way.

    PATHS are files or folders of manifests; without any, the current folder. Nothing is touched, and
    nothing is created but the file of --out; with --via one file for each rollout, numbered before the ending
    of its name, to be applied in this order.
    """
    from fleetctl.cli import for_pull_requests
    from fleetctl.cli.propose import Asked, propose, tell_cut_off

    for_pull_requests.guard(invocation, form)
    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    # Writing down a large plan takes as long as making it: only what is kept or read by machines has an id.
    seal = out is not None or form == "json"
    asked = Asked(targets, accept_downtime, adopt=adopt, observed=observed, via=via, seal=seal)
    proposal = propose(invocation, wanted, settings, asked)
    with invocation.timings.phase("write"):
        files_written = _write(invocation, proposal.plans, out, form)
        if form in for_pull_requests.FORMATS:
            for_pull_requests.write(invocation, proposal.plans, form, proposal.manifests)
    tell_cut_off(invocation, proposal.known)
    if any(plan.refused for plan in proposal.plans):
        return ExitCode.REFUSED
    if files_written:
        then = ", then ".join(f"fleetctl apply {file}" for file in files_written)
        terminal.say(f"Saved to {', '.join(map(str, files_written))}. Apply exactly this with: {then}")
    changes = not all(plan.empty for plan in proposal.plans)
    return ExitCode.CHANGES if detailed_exitcode and changes else ExitCode.OK


def _write(invocation: Invocation, plans: tuple[Plan, ...], out: Path | None, form: str) -> list[Path]:
    """Prints the plans, and saves them where that was asked for; gives the files."""
    from fleetctl.cli import planfile
    from fleetctl.cli.views import plan_text
    from planner.plan import encode

    terminal = invocation.terminal
    saved = []
    for number, plan in enumerate(plans, 1):
        file = out
        if len(plans) > 1:
            file = None if out is None else out.with_name(f"{out.stem}.{number}{out.suffix}")
            if form == "human":
                gap = "" if number == 1 else "\n"
                terminal.data(terminal.out_paint("bold", f"{gap}Rollout {number} of {len(plans)}"))
        if file is not None:
            planfile.write(file, plan)
            saved.append(file)
        if form == "json":
            terminal.data_bytes(encode(plan))
        elif form == "human":
            terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    return saved

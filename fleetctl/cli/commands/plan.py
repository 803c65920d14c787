"""fleetctl plan: what apply would do, and the proof that it stays within the budget. Touches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.cli.against import Comparison
    from planner.plan import Plan


@click.command(short_help="Show what apply would do; touches nothing.")
@options.manifest_options
@options.state_options
@options.plan_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the plan for apply.")
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="Exit 2 when there are changes; with --against 7 when they are not the approved ones.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A plan that was approved: tell what this one would do otherwise.",
)
@click.option("--destroy", is_flag=True, help="Plan what `destroy` would do.")
@options.observed_option
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
    against: Path | None,
    destroy: bool,
    observed: Path | None,
    via: bool,
    form: str,
) -> int:
    """Show what apply would do, in which order and why, and the lowest availability on the way.

    PATHS are files or folders of manifests; without any, the current folder. Nothing is touched, and
    nothing is created but the file of --out; with --via one file for each rollout, numbered before the ending
    of its name, to be applied in this order.
    """
    from fleetctl.cli import against as approvals
    from fleetctl.cli import for_pull_requests, judging
    from fleetctl.cli.propose import Asked, propose, tell_cut_off

    if via and (against is not None or destroy):
        raise click.UsageError("--via makes several plans, which --against and --destroy do not go with")
    for_pull_requests.guard(invocation, form)
    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    # Writing down a large plan takes as long as making it: only what is kept or read by machines has an id.
    seal = out is not None or form == "json"
    asked = Asked(
        targets, accept_downtime, adopt=adopt, destroy=destroy, observed=observed, via=via, seal=seal
    )
    proposal = propose(invocation, wanted, settings, asked)
    plans, verb = proposal.plans, "destroy" if destroy else "apply"
    found = [finding for plan in plans for finding in judging.judged(invocation, plan, verb)]
    compared = None if against is None else approvals.compare(proposal.plan, against)
    with invocation.timings.phase("write"):
        files_written = _save(plans, out)
        _print(invocation, plans, compared, form)
        if form in for_pull_requests.FORMATS:
            for_pull_requests.write(invocation, plans, form, proposal.manifests, found, compared)
        else:
            judging.tell(invocation, found)
    tell_cut_off(invocation, proposal.known)
    if any(plan.refused for plan in plans):
        return ExitCode.REFUSED
    if any(f.is_error for f in found):
        if files_written:
            terminal.say(
                f"Saved to {', '.join(map(str, files_written))} all the same: apply asks the policies again."
            )
        return ExitCode.REFUSED
    if files_written:
        how = "destroy --approved" if destroy else "apply"
        then = ", then ".join(f"fleetctl {how} {file}" for file in files_written)
        terminal.say(f"Saved to {', '.join(map(str, files_written))}. Apply exactly this with: {then}")
    if detailed_exitcode and compared is not None and not compared.same:
        return ExitCode.STALE
    changes = not all(plan.empty for plan in plans)
    return ExitCode.CHANGES if detailed_exitcode and changes else ExitCode.OK


def _save(plans: tuple[Plan, ...], out: Path | None) -> list[Path]:
    """Saves the plans where that was asked for; gives the files."""
    from fleetctl.cli import planfile

    if out is None:
        return []
    several = len(plans) > 1
    files = [
        out.with_name(f"{out.stem}.{number}{out.suffix}") if several else out
        for number in range(1, len(plans) + 1)
    ]
    for file, plan in zip(files, plans, strict=True):
        planfile.write(file, plan)
    return files


def _print(invocation: Invocation, plans: tuple[Plan, ...], compared: Comparison | None, form: str) -> None:
    """Prints the plans for people or as JSON; with a comparison, that is the one JSON document."""
    from fleetctl.cli.views import json_text, plan_text
    from planner.plan import encode

    terminal = invocation.terminal
    if form == "json" and compared is not None:
        terminal.data(json_text.render(compared.document()))
        return
    for number, plan in enumerate(plans, 1):
        if form == "human" and len(plans) > 1:
            gap = "" if number == 1 else "\n"
            terminal.data(terminal.out_paint("bold", f"{gap}Rollout {number} of {len(plans)}"))
        if form == "json":
            terminal.data_bytes(encode(plan))
        elif form == "human":
            terminal.data(plan_text.render_plan(plan, terminal.out_paint))
    if form == "human" and compared is not None:
        terminal.data("\n" + compared.render(terminal.out_paint))

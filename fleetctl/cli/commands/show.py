"""fleetctl show: a saved plan, as `plan` printed it."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Print a saved plan.")
@click.argument("file", metavar="PLAN", type=click.Path(path_type=Path))
@options.format_option("human", "json", "markdown", "github")
@options.debug_option
@click.pass_obj
def command(invocation: Invocation, file: Path, form: str) -> int:
    """Print a saved plan as `plan` printed it. Says nothing of whether it can still be applied."""
    from fleetctl.cli import for_pull_requests, planfile
    from fleetctl.cli.views import plan_text
    from planner.plan import encode

    for_pull_requests.guard(invocation, form)
    plan = planfile.read(file)
    terminal = invocation.terminal
    if form == "json":
        terminal.data_bytes(encode(plan))
    elif form in for_pull_requests.FORMATS:
        for_pull_requests.write(invocation, (plan,), form, None)
    else:
        terminal.data(plan_text.render_plan(plan, terminal.out_paint))
        terminal.say(f"Plan {plan.plan_id}, made {plan.created_at}.")
    return ExitCode.OK

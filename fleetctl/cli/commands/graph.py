"""fleetctl graph: a plan's steps, waves and dependencies, for programs that draw. Touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, RefusedError


@click.command(short_help="Draw a plan's steps and waves, as DOT or Mermaid.")
@options.manifest_options
@options.state_options
@options.plan_options
@options.observed_option
@click.option("--nodes", is_flag=True, help="One box for a node in a wave, instead of one for each step.")
@options.format_option("dot", "mermaid")
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
    observed: Path | None,
    nodes: bool,
    form: str,
) -> int:
    """Draw the steps of a plan, what each waits for, and the waves.

    PATHS are manifests, or one saved plan. `fleetctl graph | dot -Tsvg > plan.svg`; Mermaid is for Markdown. Orange
    takes an available node down; red is the step after which there is no way back.
    """
    from fleetctl.cli import planfile, saved
    from fleetctl.cli.propose import Asked, propose
    from fleetctl.cli.views import graph

    terminal = invocation.terminal
    if saved.is_plan(paths):
        plan = planfile.read(paths[0])
    else:
        wanted = options.sources(paths, files, variables, var_files)
        settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
        asked = Asked(targets, accept_downtime, adopt=adopt, observed=observed, seal=False)
        plan = propose(invocation, wanted, settings, asked).plan
    if plan.refused:
        raise RefusedError("the plan is refused, so it has no steps", hint="see why: fleetctl plan")
    if plan.empty:
        terminal.say("No changes: there is nothing to draw.")
    drawn = graph.parts(plan, by_node=nodes)
    text = graph.render_dot(drawn) if form == "dot" else graph.render_mermaid(drawn)
    if form == "mermaid" and graph.too_large_for_mermaid(text):
        terminal.say(
            "Most sites refuse a Mermaid drawing of this size; --nodes makes it smaller, --format dot has no limit."
        )
    terminal.data(text)
    return ExitCode.OK

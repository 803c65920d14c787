"""fleetctl runs: what was run, and how it ended. Reads the state only."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="List what was run on a fleet, and how it ended.")
@options.place_options
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.fleets,
    help="Only this fleet; may be repeated.",
)
@options.format_option("human", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    fleets: tuple[str, ...],
    form: str,
) -> int:
    """List what was run on the fleets of a state, the newest last, and how each run ended.

    The state is found beside the first of PATHS; the manifests themselves are not read.
    """
    from fleetctl import bootstrap
    from fleetctl.cli.views import json_text, runs_text

    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    store = bootstrap.open_store(settings, invocation.clock, read_only=True)
    try:
        known = bootstrap.replayed(store, fleets or store.fleets())
    finally:
        store.close()
    runs = sorted((r for fleet in known.values() for r in fleet.runs), key=lambda r: r.started_at)
    if form == "json":
        invocation.terminal.data(json_text.render(runs_text.document(runs)))
    else:
        invocation.terminal.data(runs_text.render_runs(runs))
    return ExitCode.OK

"""fleetctl status: a fleet at one glance. Touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Versions, availability and health at one glance.")
@options.manifest_options
@options.state_options
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
    form: str,
) -> int:
    """Show which versions run, how many nodes serve, each node's state and health, and the last run.

    Looks at the hosts and probes the nodes; touches nothing and needs no lock.
    """
    from fleetctl.cli import look
    from fleetctl.cli.views import json_text, status_text

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    manifests = look.load(invocation, wanted)
    known = look.know(invocation, manifests, settings)
    snapshot = look.observe(invocation, known, settings)
    fleets = [
        status_text.fleet_status(fleet, snapshot, r.recorded, r.runs, known.leases.get(fleet))
        for fleet, r in known.replayed.items()
    ]
    if form == "json":
        terminal.data(json_text.render(status_text.document(fleets, snapshot.taken_at)))
    else:
        terminal.data(status_text.render_status(fleets, invocation.clock.now(), terminal.out_paint))
    return ExitCode.OK

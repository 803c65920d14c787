"""fleetctl status: a fleet at one glance. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.cli.look import Known
    from fleetctl.settings import Settings
    from manifests.manifest import Manifests
    from planner.observed import Snapshot

INTERVAL_MIN_S = 0.2


@click.command(short_help="Versions, availability and health at one glance.")
@options.manifest_options
@options.state_options
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval", default="2s", show_default=True, metavar="DURATION", help="How long between two looks."
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
    watch: bool,
    interval: str,
    form: str,
) -> int:
    """Show which versions run, how many nodes serve, each node's state and health, what was changed outside of
    fleetctl, and the last run.

    Looks at the hosts and probes the nodes; touches nothing and needs no lock.
    """
    from fleetctl.cli import look
    from fleetctl.cli import watch as watching

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    manifests = look.load(invocation, wanted)
    if not watch:
        snap = partial(look.observe, invocation, settings=settings)
        terminal.data(_glance(invocation, manifests, settings, snap, form))
        return ExitCode.OK
    interval_s = max(INTERVAL_MIN_S, options.duration_s("--interval", interval))
    try:
        with look.watching(invocation, settings) as again:
            glance = partial(
                _glance, invocation, manifests, settings, again, "line" if form == "json" else form
            )
            watching.watch(invocation, interval_s, glance, stamp=form == "human")
    except KeyboardInterrupt:  # how watching ends
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _glance(
    invocation: Invocation,
    manifests: Manifests,
    settings: Settings,
    observe: Callable[[Known], Snapshot],
    form: str,
) -> str:
    """One look, as text; `line` is JSON on one line."""
    from fleetctl.cli import look
    from fleetctl.cli.views import json_text, status_text

    known = look.know(invocation, manifests, settings)
    snapshot = observe(known)
    roots = {name: host.root for name, host in manifests.hosts.items()}
    fleets = [
        status_text.fleet_status(fleet, snapshot, r.recorded, r.runs, known.leases.get(fleet), roots)
        for fleet, r in known.replayed.items()
    ]
    if form != "human":
        return json_text.render(status_text.document(fleets, snapshot.taken_at), one_line=form == "line")
    return status_text.render_status(fleets, invocation.clock.now(), invocation.terminal.out_paint)

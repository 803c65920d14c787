"""fleetctl settle: a person says what became of an effect that no lookup could decide."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Say by hand what became of an effect.")
@click.argument("operation", metavar="OPERATION")
@click.option(
    "--as",
    "verdict",
    required=True,
    type=click.Choice(["succeeded", "failed"]),
    help="What you found: it came about, or it did not and will not.",
)
@click.option("--reason", required=True, metavar="TEXT", help="How you know; kept in the journal.")
@options.place_options
@click.pass_obj
def command(
    invocation: Invocation,
    operation: str,
    verdict: str,
    reason: str,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
) -> int:
    """Record what became of OPERATION, whose outcome is open, after looking at the place itself.

    `failed` means that it was not performed and cannot arrive late: `fleetctl recover` will then try it
    again. `fleetctl recover` lists the open operations with what to check.
    """
    from contextlib import closing

    from fleetctl import bootstrap
    from fleetctl.engine.observer import Silent
    from fleetctl.engine.settle import settle

    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    with (
        closing(bootstrap.open_store(settings, invocation.clock, read_only=False)) as store,
        closing(bootstrap.access(settings, invocation.clock)) as reach,
    ):
        engine = bootstrap.engine(settings, invocation.clock, store, Silent(), reach)
        record = settle(engine, operation, verdict, reason)
    invocation.terminal.data(
        f"Settled: {record.effect} of {record.node or 'the whole fleet'} {record.state.value}."
    )
    invocation.terminal.say("Carry the plan on with: fleetctl recover")
    return ExitCode.OK

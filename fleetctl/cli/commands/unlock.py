"""fleetctl unlock: takes a fleet's lock from a holder that is gone for good."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Take a fleet's lock from a holder that is gone.")
@click.argument("fleet", metavar="FLEET", shell_complete=completion.fleets)
@click.option(
    "--id", "lease_id", required=True, metavar="ID", help="The lock's id, as the refusal printed it."
)
@options.place_options
@click.pass_obj
def command(
    invocation: Invocation,
    fleet: str,
    lease_id: str,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
) -> int:
    """Take the lock of FLEET from its holder, which must be gone for good.

    A holder that died on this machine is replaced without this. The id makes sure that the lock you mean is
    the one you take; a holder that wakes up after all is fenced by the epoch.
    """
    from fleetctl import bootstrap

    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    with closing(bootstrap.open_store(settings, invocation.clock, read_only=False)) as store:
        lease = store.unlock(fleet, lease_id)
    invocation.terminal.data(
        f"Unlocked: fleet/{fleet} was held by {lease.holder.who} since {lease.acquired_at}."
    )
    invocation.terminal.say("Settle what it left with: fleetctl recover")
    return ExitCode.OK

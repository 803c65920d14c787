"""fleetctl audit: proves the journal, and writes it for auditors."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.group(short_help="Prove and export the journal.")
def command() -> None:
    """Prove the journal's chain, or write it as JSON lines."""


_fleet_option = click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.fleets,
    help="Only this fleet; may be repeated.",
)


@command.command("verify")
@options.place_options
@_fleet_option
@click.pass_obj
def verify(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    fleets: tuple[str, ...],
) -> int:
    """Prove that no entry of the journal was changed, removed or put in between, and that every move was legal."""
    from fleetctl import bootstrap
    from fleetctl.ledger import audit

    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    with closing(bootstrap.open_store(settings, invocation.clock, read_only=True)) as store:
        for fleet in fleets or store.fleets():
            proven = audit.verify(store, fleet)
            invocation.terminal.data(
                f"fleet/{fleet}: whole, {proven.head.sequence} entries, {proven.runs} runs, "
                f"{proven.operations} operations, {proven.unsettled} open; head {proven.head.sha256}"
            )
    return ExitCode.OK


@command.command("export")
@options.place_options
@_fleet_option
@click.pass_obj
def export(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    fleets: tuple[str, ...],
) -> int:
    """Write one JSON line for each entry: who, when, what, from which plan, with which outcome and evidence.

    `source` tells what the engine claims from what the node or its substrate answered.
    """
    from fleetctl import bootstrap
    from fleetctl.ledger import audit

    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    with closing(bootstrap.open_store(settings, invocation.clock, read_only=True)) as store:
        for fleet in fleets or store.fleets():
            for line in audit.export(store.read(fleet)):
                invocation.terminal.data(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    return ExitCode.OK

"""fleetctl move: gives a node or a group another name, without replacing anything."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.engine.rename import Named
    from fleetctl.settings import Settings


@click.command(short_help="Give a node or a group another name.")
@click.argument("source", metavar="FROM", shell_complete=completion.addresses)
@click.argument("target", metavar="TO", shell_complete=completion.addresses)
@options.place_options
@click.pass_obj
def command(
    invocation: Invocation,
    source: str,
    target: str,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
) -> int:
    """Give a node or a group another name in the ledger; its uid, place, data and process stay.

    FROM and TO are node/FLEET/NAME or group/FLEET/NAME; a name alone is a node, where the state has one fleet. Nodes
    that count their group's name follow it. Rename it in the manifests too: then the next plan is empty, unless a
    template has the name in it. No host is touched, and the way back is the same command with its names exchanged.
    """
    from fleetctl import bootstrap

    terminal = invocation.terminal
    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    before, after = _addresses(invocation, settings, source, target)
    for done in bootstrap.rename(settings, invocation.clock, before, after):
        terminal.data(
            f"node/{before.fleet}/{done.before} is node/{before.fleet}/{done.after}, of group {done.group}"
        )
    terminal.say("Rename it in the manifests too, then see that nothing is left to do: fleetctl plan")
    return ExitCode.OK


def _addresses(invocation: Invocation, settings: Settings, source: str, target: str) -> tuple[Named, Named]:
    """Raises AddressError, WhichFleet."""
    from fleetctl import bootstrap
    from fleetctl.cli.steering import WhichFleet
    from manifests import address

    with closing(bootstrap.open_store(settings, invocation.clock, read_only=True)) as store:
        fleets = store.fleets()
    found: list[Named] = []
    for text in (source, target):
        if "/" not in text:
            if len(fleets) != 1:
                raise WhichFleet(
                    f"the state has {'no fleet' if not fleets else 'several fleets: ' + ', '.join(sorted(fleets))}",
                    hint=f"write node/FLEET/{text}",
                )
            text = f"node/{fleets[0]}/{text}"
        parsed = address.parse(text)
        if not isinstance(parsed, (address.NodeAddress, address.GroupAddress)):
            raise address.AddressError(
                f"{text} names no node and no group", hint="write node/FLEET/NAME or group/FLEET/NAME"
            )
        found.append(parsed)
    return found[0], found[1]

"""pause, resume, promote, abort: one command each, the same but for the word that they say."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import FleetctlError


class WhichFleet(FleetctlError):
    """Several fleets could be meant, and none was named."""

    code = "fleet.ambiguous"


def verb_command(verb: str, short: str, text: str) -> click.Command:
    """The command that says `verb` to the open run of a fleet."""

    @click.command(name=verb, short_help=short, help=text)
    @options.place_options
    @options.parallelism_option
    @options.events_option
    @click.option(
        "--fleet",
        default=None,
        metavar="NAME",
        shell_complete=completion.fleets,
        help="Which fleet, where several have an open run.",
    )
    @click.pass_obj
    def command(
        invocation: Invocation,
        paths: tuple[Path, ...],
        files: tuple[Path, ...],
        state: str | None,
        parallelism: int | None,
        fleet: str | None,
    ) -> int:
        from fleetctl import bootstrap
        from fleetctl.cli import carry_out
        from fleetctl.engine import recover
        from fleetctl.engine.controls import Verb
        from fleetctl.engine.steer import steer

        wanted = options.sources(paths, files, (), ())
        settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
        store = bootstrap.open_store(settings, invocation.clock, read_only=True)
        try:
            runs = recover.open_runs(store, store.fleets())
            name = fleet or _only(sorted(runs), verb)
            plan = recover.stored_plan(store, runs[name].document) if name in runs else None
        finally:
            store.close()
        if plan is None:
            from fleetctl.engine.errors import NoOpenRun

            raise NoOpenRun(f"fleet {name} has no run to {verb}", hint="`fleetctl runs` lists what was run")
        return carry_out.carry_out(invocation, settings, plan, lambda engine: steer(engine, name, Verb(verb)))

    return command


def _only(fleets: list[str], verb: str) -> str:
    if len(fleets) == 1:
        return fleets[0]
    if not fleets:
        from fleetctl.engine.errors import NoOpenRun

        raise NoOpenRun(f"there is no run to {verb}", hint="`fleetctl runs` lists what was run")
    raise WhichFleet(f"several fleets have an open run: {', '.join(fleets)}", hint="name one: --fleet NAME")

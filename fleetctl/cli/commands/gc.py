"""fleetctl gc: removes artifacts that no node and no way back needs, after showing them and asking."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from fleetctl.engine.garbage import Found

MIN_AGE = "1h"


@click.command(short_help="Remove artifacts that nothing needs any more.")
@options.manifest_options
@options.state_options
@options.approve_option
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option(
    "--min-age",
    default=MIN_AGE,
    show_default=True,
    metavar="DURATION",
    help="Keep what came to its host more recently: another state may be about to use it.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    parallelism: int | None,
    auto_approve: bool,
    dry_run: bool,
    min_age: str,
) -> int:
    """Remove artifacts from the hosts of PATHS that no node there runs and no recorded node could go back to.

    Fleets of this state are held while it looks and removes, so that no apply is under way.
    """
    from fleetctl import bootstrap
    from fleetctl.cli import approval, look
    from fleetctl.engine import garbage

    min_age_s = _seconds(min_age)
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    manifests = look.load(invocation, wanted)
    with ExitStack() as held:
        store = held.enter_context(closing(bootstrap.open_store(settings, invocation.clock, read_only=False)))
        fleets = sorted({*store.fleets(), *manifests.fleets})
        held.enter_context(bootstrap.holding(store, fleets, "gc"))
        replayed = bootstrap.replayed(store, fleets)
        journals = {fleet: list(store.read(fleet)) for fleet in fleets}
        pins = garbage.pins_of(entry for entries in journals.values() for entry in entries)
        places = {(h, g.substrate) for f in manifests.fleets.values() for g in f.groups for h in g.hosts}
        reach = held.enter_context(closing(bootstrap.access(settings, invocation.clock)))
        drivers = held.enter_context(bootstrap.drivers(manifests.hosts, reach))
        found, unseen = garbage.find(
            {*places, *pins}, drivers, [(replayed[f].recorded, journals[f]) for f in fleets], pins, min_age_s
        )
        _show(invocation, found, unseen)
        going = [f for f in found if f.kept is None]
        if not going or dry_run:
            return ExitCode.ERROR if unseen else ExitCode.OK
        approval.approve(invocation.terminal, "Remove these?", auto=auto_approve)
        removed, refused = garbage.remove(found, drivers)
    freed = sum(f.artifact.size_b for f in removed)
    invocation.terminal.data(f"Removed {len(removed)} of {len(going)}, {_size(freed)}.")
    for line in refused:
        invocation.terminal.say(f"Not removed: {line}")
    return ExitCode.ERROR if refused or unseen else ExitCode.OK


def _show(invocation: Invocation, found: list[Found], unseen: list[str]) -> None:
    from fleetctl.cli.views import table

    rows = [
        (
            "-" if f.kept is None else "",
            f.host,
            f.substrate,
            f.artifact.digest[:19],
            _size(f.artifact.size_b),
            f.kept or "nothing needs it",
        )
        for f in found
    ]
    if rows:
        header = ("", "host", "substrate", "artifact", "size", "why")
        invocation.terminal.data("\n".join(table.render(header, rows)))
    if not any(f.kept is None for f in found):
        invocation.terminal.data("Nothing to remove.")
    for line in unseen:
        invocation.terminal.say(f"Not looked at: {line}")


def _seconds(text: str) -> float:
    from manifests.schema.base import duration_ms

    try:
        return duration_ms(text) / 1000
    except ValueError as e:
        raise FleetctlError(f"--min-age {text!r}: {e}", code="option.invalid") from e


def _size(size_b: int) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_b >= scale:
            return f"{size_b / scale:.1f} {unit}"
    return f"{size_b} B"

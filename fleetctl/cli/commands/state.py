"""fleetctl state: moves, proves, saves and tidies a state as a whole."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleetctl.bootstrap import Copied
    from fleetctl.settings import Settings

FORMAT_VERSION = "1.0"


@click.group(short_help="Move, verify, back up, restore and compact a state.")
def command() -> None:
    """Work on a state as a whole: a folder, or a bucket named s3://BUCKET/PREFIX."""


_fleet_option = click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.fleets,
    help="Only this fleet; may be repeated.",
)


@command.command("migrate")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@options.state_endpoint_option
@click.option(
    "--to-endpoint", metavar="URL", help="The store that has TO's bucket, where it is another than FROM's."
)
@options.approve_option
@options.debug_option
@click.pass_obj
def migrate(
    invocation: Invocation, source: str, target: str, to_endpoint: str | None, auto_approve: bool
) -> int:
    """Copy the state FROM into the empty place TO, prove the copy, and close FROM.

    A closed state can be read, and no run begins in it; it says where the state went. Every fleet is held
    meanwhile. What was cut off goes on when the same command runs again; migrating back opens FROM again.
    """
    from fleetctl import bootstrap
    from fleetctl.cli import approval

    terminal = invocation.terminal
    here, there = _place(invocation, source), _place(invocation, target, to_endpoint)
    if (here.state, here.remote) == (there.state, there.remote):
        raise click.UsageError("FROM and TO are the same place")
    with (
        closing(bootstrap.open_store(here, invocation.clock, read_only=False)) as old,
        closing(bootstrap.open_store(there, invocation.clock, read_only=False)) as new,
    ):
        terminal.data(
            f"From {old.describe()} to {new.describe()}; the first one is closed to runs afterwards."
        )
        approval.approve(terminal, "Move the state?", auto=auto_approve)
        _tell_copied(invocation, bootstrap.migrate(old, new, invocation.clock))
        terminal.data(f"The state is in {new.describe()} now. Name it with --state or FLEETCTL_STATE.")
    return ExitCode.OK


@command.command("verify")
@options.place_options
@_fleet_option
@options.format_option("human", "json")
@click.pass_obj
def verify(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    fleets: tuple[str, ...],
    form: str,
) -> int:
    """Prove that the state is whole: each journal's chain and moves, each plan that it names, the key.

    Exits 1 when anything is not; damage of one fleet does not hide another's.
    """
    from fleetctl import bootstrap
    from fleetctl.cli.views import json_text

    terminal = invocation.terminal
    settings = _settings(invocation, paths, files, state)
    with closing(bootstrap.open_store(settings, invocation.clock, read_only=True)) as store:
        found = bootstrap.verify(store, fleets)
        where = store.describe()
    whole = not any(v.problems for v in found)
    if form == "json":
        document = {
            "format_version": FORMAT_VERSION,
            "state": where,
            "whole": whole,
            "fleets": [{**asdict(v), "problems": list(v.problems)} for v in found],
        }
        terminal.data(json_text.render(document))
        return ExitCode.OK if whole else ExitCode.ERROR
    if not found:
        terminal.data(f"{where} holds no fleet.")
    for v in found:
        open_run = f", run {v.open_run} open" if v.open_run else ""
        moved = f", moved to {v.moved_to}" if v.moved_to else ""
        terminal.data(
            f"fleet/{v.fleet}: {'damaged' if v.problems else 'whole'}, {v.entries} entries, {v.runs} runs"
            f"{open_run}, {v.documents} plans{moved}; head {v.head_sha256 or '-'}"
        )
        for problem in v.problems:
            terminal.say(f"  {problem}")
    return ExitCode.OK if whole else ExitCode.ERROR


@command.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@options.place_options
@click.pass_obj
def backup(
    invocation: Invocation,
    file: Path,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
) -> int:
    """Write the state into FILE, proven and readable for you only. It holds the key of secret digests, and no secret.

    Needs no lock: what was recorded when it began is in it.
    """
    from fleetctl import bootstrap

    settings = _settings(invocation, paths, files, state)
    with closing(bootstrap.open_store(settings, invocation.clock, read_only=True)) as store:
        _tell_copied(invocation, bootstrap.backup(store, file, invocation.clock))
    invocation.terminal.data(f"Written: {file}")
    return ExitCode.OK


@command.command("restore")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@options.place_options
@options.approve_option
@click.pass_obj
def restore(
    invocation: Invocation,
    file: Path,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    auto_approve: bool,
) -> int:
    """Bring a backup into a place that holds no state, and record in its journals that this was done.

    What ran after the backup was made is not in it: run `fleetctl plan` next, and read it.
    """
    from fleetctl import bootstrap
    from fleetctl.cli import approval

    settings = _settings(invocation, paths, files, state)
    with closing(bootstrap.open_store(settings, invocation.clock, read_only=False)) as store:
        invocation.terminal.data(f"From {file} to {store.describe()}.")
        approval.approve(invocation.terminal, "Restore the state?", auto=auto_approve)
        _tell_copied(invocation, bootstrap.restore(file, store, invocation.clock))
    invocation.terminal.say(
        "What ran after the backup is not known here. See what is really there: fleetctl plan"
    )
    return ExitCode.OK


@command.command("compact")
@options.place_options
@_fleet_option
@click.pass_obj
def compact(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    fleets: tuple[str, ...],
) -> int:
    """Seal the journal's many small objects into few large ones, so that it is read faster.

    No entry is dropped: `state verify` and `audit verify` prove the same chain afterwards. Each fleet is
    held meanwhile. A state in a folder is one file, and needs this never.
    """
    from fleetctl import bootstrap

    terminal = invocation.terminal
    settings = _settings(invocation, paths, files, state)
    if settings.remote is None:
        terminal.data(f"{settings.state} is a folder: there is nothing to compact.")
        return ExitCode.OK
    for done in bootstrap.compact(settings.remote, fleets, invocation.clock):
        sealed = f"sealed {done.sealed} objects" if done.sealed else "nothing new to seal"
        terminal.data(f"fleet/{done.fleet}: {sealed}; {done.entries} entries in {done.segments} segments")
    return ExitCode.OK


def _settings(
    invocation: Invocation, paths: tuple[Path, ...], files: tuple[Path, ...], state: str | None
) -> Settings:
    wanted = options.sources(paths, files, (), ())
    return options.resolve_settings(invocation, wanted.folder, state, None)


def _place(invocation: Invocation, text: str, endpoint: str | None = None) -> Settings:
    """FROM or TO: a folder or a bucket, whatever FLEETCTL_STATE says."""
    from fleetctl import settings

    if not text:
        raise FleetctlError("a state's place is empty", code="option.invalid")
    endpoint = endpoint or invocation.state_endpoint
    return settings.resolve(invocation.environ, beside=Path(), state=text, state_endpoint=endpoint)


def _tell_copied(invocation: Invocation, copied: Sequence[Copied]) -> None:
    for c in copied:
        invocation.terminal.data(
            f"fleet/{c.fleet}: {c.entries} entries and {c.documents} plans; head {c.head.sha256}"
        )

"""fleetctl fmt: lays manifests out anew; never what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, FleetctlError, ManifestError

STDIN = "-"


@click.command(short_help="Lay manifests out in one style; keeps comments.")
@options.debug_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.pass_obj
def command(invocation: Invocation, paths: tuple[Path, ...], check: bool, diff: bool) -> int:
    """Lay manifests out in one style: indentation, spaces, quotes, empty lines. Comments stay, and so does the meaning.

    PATHS are files or folders, as for `plan`; `-` reads stdin and writes stdout; without any, the current folder.
    The names of the files that change are printed. A file that is not YAML, or whose meaning would change, is left
    as it is and named (exit 1).
    """
    from fleetctl.cli import rewrite
    from fleetctl.cli.views.diagnostics import render_error
    from manifests.formatting import formatted

    terminal = invocation.terminal
    failed = changed = False
    for path in rewrite.files(paths or (Path(),)):
        stdin = str(path) == STDIN
        try:
            before = sys.stdin.buffer.read() if stdin else rewrite.read(path)
            after = formatted(before, "stdin" if stdin else str(path)).encode()
        except (ManifestError, FleetctlError) as error:
            terminal.say(render_error(error, terminal.err_paint))
            failed = True
            continue
        changed |= after != before
        if diff:
            terminal.data(rewrite.difference(before, after, str(path), terminal.out_paint))
        elif stdin and not check:
            terminal.data_bytes(after)
        elif after != before:
            terminal.data(str(path))
            if not check:
                rewrite.write(path, after)
    if check and changed:
        terminal.say("Lay them out with: fleetctl fmt")
    return ExitCode.ERROR if failed or (check and changed) else ExitCode.OK

"""fleetctl logs: what a node says. Touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

LINES_MAX = 2000


@click.command(short_help="Show what a node has said, and follow it.")
@click.argument("node", metavar="NODE", shell_complete=completion.nodes)
@options.long_manifest_options
@options.host_options
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, LINES_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help=f"How many lines that were said already; at most {LINES_MAX}.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is said from now on, until Ctrl-C.")
@click.option("--raw", is_flag=True, help="Pass control characters on to the terminal.")
@click.pass_obj
def command(
    invocation: Invocation,
    node: str,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    lines: int,
    follow: bool,
    raw: bool,
) -> int:
    """Show the last lines of NODE's own output: its log, its journal, its container's log or its console.

    NODE is a name, or FLEET/NAME. On a terminal control characters are left out.
    """
    from fleetctl.cli import one_node
    from fleetctl.cli.remote_output import ReaderGone, RemoteOutput

    found = one_node.find(invocation, options.sources(paths, files, variables, var_files), state, node)
    output = RemoteOutput(invocation.terminal, raw=raw, limit_b=None)
    with one_node.reader(invocation, found) as reader:
        try:
            if follow:
                reader.follow(found.node.uid, lines, output)
                output.end()
                invocation.terminal.say(f"{found.address} says nothing more: it has ended.")
                return ExitCode.OK
            text = reader.logs(found.node.uid, lines)
            output(text.encode() + (b"" if text.endswith("\n") or not text else b"\n"), False)
            output.end()
        except ReaderGone:
            return ExitCode.OK
        except KeyboardInterrupt:  # how following ends
            return ExitCode.INTERRUPTED
    if not text:
        invocation.terminal.say(f"{found.address} has said nothing, or its log cannot be had.")
    return ExitCode.OK

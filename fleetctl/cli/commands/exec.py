"""fleetctl exec: a command where a node lives."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation


@click.command(short_help="Run a command where a node lives.")
@click.argument("node", metavar="NODE", shell_complete=completion.nodes)
@options.source_options
@options.host_options
@click.option(
    "--timeout",
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long it may take: 90s, 5m, 1h.",
)
@click.option("--raw", is_flag=True, help="Pass control characters on to the terminal.")
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND...")
@click.pass_obj
def command(
    invocation: Invocation,
    node: str,
    argv: tuple[str, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    timeout: str,
    raw: bool,
) -> int:
    """Run COMMAND where NODE lives, and end with its exit status.

    On a host it runs in the node's folder and with its environment, as the user that the host is reached with; in a
    container with the container's own; in a virtual machine through the guest's agent, which gives the output at the
    end. Its input is empty. No record is kept of it, so do not change with it what the manifests declare.
    """
    from fleetctl.cli import one_node
    from fleetctl.cli.remote_output import ReaderGone, RemoteOutput

    timeout_s = options.duration_s("--timeout", timeout)
    found = one_node.find(invocation, options.sources((), files, variables, var_files), state, node)
    output = RemoteOutput(invocation.terminal, raw=raw)
    with one_node.driver(invocation, found) as driver:
        try:
            status = driver.execute(found.node.uid, argv, output, timeout_s)
            dropped_b = output.end()
        except ReaderGone:
            return _READER_GONE
    if dropped_b:
        invocation.terminal.say(f"Warning: {dropped_b} more bytes of output were left out.")
    return status


_READER_GONE = 141
"""What a shell reports of a program that wrote into a closed pipe: 128 + SIGPIPE."""

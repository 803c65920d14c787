"""fleetctl inventory: what is really there, as a snapshot. Touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Print what is really there, as a snapshot.")
@options.manifest_options
@options.state_options
@options.format_option("human", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    parallelism: int | None,
    form: str,
) -> int:
    """Print what is really on the hosts of the manifests, whoever put it there.

    `--format json` is the snapshot that `plan --observed FILE` reads. A host that does not answer is
    listed as such; its nodes are unseen, not absent.
    """
    from fleetctl.cli import look
    from fleetctl.cli.views import inventory_text, json_text

    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    manifests = look.load(invocation, wanted)
    snapshot = look.observe(invocation, look.know(invocation, manifests, settings), settings)
    if form == "json":
        invocation.terminal.data(json_text.render(snapshot.model_dump(mode="json")))
    else:
        invocation.terminal.data(inventory_text.render_inventory(snapshot, invocation.clock.now()))
    return ExitCode.OK

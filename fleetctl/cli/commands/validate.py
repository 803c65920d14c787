"""fleetctl validate: is what was written meant, and can it be?"""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, ManifestError


@click.command(short_help="Check manifests without looking at any host.")
@options.manifest_options
@options.format_option("human", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    form: str,
) -> int:
    """Check manifests without looking at any host: every finding of the run, each with file:line:column.

    PATHS are files or folders; without any, the current folder.
    """
    from fleetctl.cli.views import json_text
    from fleetctl.cli.views.diagnostics import render_diagnostics
    from manifests.load import load

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    try:
        with invocation.timings.phase("load"):
            manifests = load(wanted.paths, variables=wanted.variables, var_files=wanted.var_files)
    except ManifestError as error:
        if form != "json":
            raise
        terminal.data(json_text.render(json_text.diagnostics_document(error.diagnostics)))
        return error.exit_code
    if form == "json":
        terminal.data(json_text.render(json_text.diagnostics_document(manifests.warnings)))
        return ExitCode.OK
    if manifests.warnings:
        terminal.say(render_diagnostics(manifests.warnings, terminal.err_paint))
    nodes = sum(
        len(g.nodes) if g.nodes is not None else g.count or 0
        for f in manifests.fleets.values()
        for g in f.groups
    )
    terminal.data(
        f"Valid: {_number(len(manifests.fleets), 'fleet')} with {_number(nodes, 'node')}, "
        f"{_number(len(manifests.releases), 'release')}, {_number(len(manifests.hosts), 'host')}."
    )
    return ExitCode.OK


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"

"""fleetctl schema: the manifests' JSON Schema, for editors and other checkers."""

from __future__ import annotations

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

EVENTS = "events"
KINDS = ("Fleet", "Host", "Release", "Compatibility", "Policy")


@click.command(short_help="Print the JSON Schema of the manifests, for editors.")
@click.argument("kind", required=False, type=click.Choice((*KINDS, EVENTS), case_sensitive=False))
@options.debug_option
@click.pass_obj
def command(invocation: Invocation, kind: str | None) -> int:
    """Print the JSON Schema of one KIND, or of any manifest document; with `events` that of a line of --events.

    Point an editor at it: `# yaml-language-server: $schema=fleet.schema.json` as a file's first line.
    """
    from fleetctl.cli.views import json_text
    from manifests.export import json_schema

    if kind == EVENTS:
        from fleetctl.cli.views.event_types import schema

        invocation.terminal.data(json_text.render(schema()))
        return ExitCode.OK
    document = json_schema()
    if kind is not None:
        document = {**{k: v for k, v in document.items() if k != "oneOf"}, "$ref": f"#/$defs/{kind}"}
    invocation.terminal.data(json_text.render(document))
    return ExitCode.OK

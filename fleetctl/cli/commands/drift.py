"""fleetctl drift: what changed outside of fleetctl, apart from what is pending. Touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Show what changed outside of fleetctl.")
@options.manifest_options
@options.state_options
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there is drift.")
@options.observed_option
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
    detailed_exitcode: bool,
    observed: Path | None,
    form: str,
) -> int:
    """Show what is not as fleetctl left it: what is there against what the ledger recorded.

    What the manifests want next is no drift, and is named apart. A host that does not answer is neither.
    """
    from fleetctl.cli import look, propose, secrets
    from fleetctl.cli.views import drift_text, json_text
    from planner.drift import drift

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    manifests = look.load(invocation, wanted)
    known = look.know(invocation, manifests, settings)
    if observed is not None:
        snapshot = look.read_snapshot(invocation, observed)
    else:
        snapshot = look.observe(invocation, known, settings)
    specs = [n.spec for r in known.recorded.values() for n in r.live().values() if n.spec is not None]
    references = {*secrets.references(manifests), *secrets.references_of(specs)}
    digests, problems = secrets.keyed_digests(sorted(references), known.key)
    for problem in problems:
        terminal.say(f"Warning: {problem}; whether its value changed is not checked.")
    found = drift(manifests, snapshot, known.recorded, digests)
    if form == "json":
        terminal.data(json_text.render(drift_text.document(found, snapshot.taken_at)))
    else:
        terminal.data(drift_text.render(found, terminal.out_paint))
    propose.tell_cut_off(invocation, known)
    return ExitCode.CHANGES if detailed_exitcode and any(f.drifted for f in found) else ExitCode.OK

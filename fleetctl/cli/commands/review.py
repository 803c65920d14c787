"""fleetctl review: what a change of the manifests will do to the fleet, without touching it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.cli.review import Reviewed
    from fleetctl.cli.terminal import Paint


@click.command(short_help="Show what a change of the manifests would do.")
@click.argument("base", required=False)
@click.argument("head", required=False)
@options.source_options
@options.only_state_options
@click.option(
    "--observed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A snapshot of `inventory --format json`: what the fleet as last seen makes of it, too.",
)
@options.accept_downtime_option
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it to a file.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when something changes.")
@options.format_option("human", "json", "markdown", "github", "sarif")
@click.pass_obj
def command(
    invocation: Invocation,
    base: str | None,
    head: str | None,
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    observed: Path | None,
    accept_downtime: bool,
    out: Path | None,
    detailed_exitcode: bool,
    form: str,
) -> int:
    """Show what a change of the manifests would do to which nodes, without asking any host.

    BASE and HEAD are git revisions, or folders. Without HEAD the working tree is reviewed; without BASE it is
    compared with the commit at which it left the main branch. What is applied is taken to be BASE, all of it
    healthy; with --state or --observed the fleet as last seen is asked as well.
    """
    from fleetctl.cli import for_pull_requests, review

    for_pull_requests.guard(invocation, form)
    wanted = options.sources((), files, variables, var_files)
    asked = review.Asked(base, head, wanted, bool(files), state, observed, accept_downtime)
    reviewed = review.review(invocation, asked)
    with invocation.timings.phase("write"):
        _write(invocation, reviewed, form, out)
    document = reviewed.document
    if not document.valid:
        return reviewed.exit_code
    if document.refused:
        return ExitCode.REFUSED
    return ExitCode.CHANGES if detailed_exitcode and document.changes else ExitCode.OK


def _write(invocation: Invocation, reviewed: Reviewed, form: str, out: Path | None) -> None:
    from fleetctl.cli.terminal import PLAIN

    terminal = invocation.terminal
    text = _render(invocation, reviewed, form, terminal.out_paint if out is None else PLAIN)
    if out is None:
        terminal.data(text)
    else:
        data = text if text.endswith("\n") else text + "\n"
        out.write_text(data, encoding="utf-8", errors="backslashreplace")


def _render(invocation: Invocation, reviewed: Reviewed, form: str, paint: Paint) -> str:
    from fleetctl.cli.views import review_document, review_text

    document = reviewed.document
    match form:
        case "json":
            return review_document.render_json(document)
        case "sarif":
            from fleetctl.cli.views import sarif

            return sarif.render(document.said, reviewed.root)
        case "human":
            return review_text.render(document, reviewed.lines, paint)
    from fleetctl.cli import step_summary
    from fleetctl.cli.views import github, review_markdown

    page = review_markdown.page(document, reviewed.paths, reviewed.lines)
    if form == "markdown":
        return page.render()
    step_summary.add(invocation, [page])
    return github.log(review_text.render(document, reviewed.lines), document.said, reviewed.root)

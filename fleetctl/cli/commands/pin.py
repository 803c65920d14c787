"""fleetctl pin: looks sources up and writes their digests into Release documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleetctl.cli.options import Sources
    from fleetctl.cli.pinning import Change, Outcome, Resolver

RELEASES_FILE = "releases.yaml"


@click.command(short_help="Pin sources by digest in Release documents.")
@options.manifest_options
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a pin is missing or moved.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--release", metavar="PRODUCT@VERSION", help="Write this Release, with the --artifact given.")
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    metavar="SUBSTRATE[/ARCH]=SOURCE",
    help="An artifact of --release; may be repeated.",
)
@click.option(
    "--engine", metavar="URL", help="The Docker engine that asks registries (default: DOCKER_HOST)."
)
@options.format_option("human", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    check: bool,
    diff: bool,
    release: str | None,
    artifacts: tuple[str, ...],
    engine: str | None,
    form: str,
) -> int:
    """Look up what each artifact's source has now, and write its digest into the Release document.

    Sources are files beside the manifest, https:// and s3:// URLs, and for docker REPOSITORY:TAG, which becomes
    REPOSITORY:TAG@DIGEST. Comments and layout stay. A pin that moved under the same version is said. Without
    --release, the Releases in PATHS are pinned anew; with it, one is added to a file (default: releases.yaml), or
    completed there.
    """
    from fleetctl.cli import pinning, rewrite
    from fleetctl.cli.views import json_text

    terminal = invocation.terminal
    if bool(release) != bool(artifacts):
        raise click.UsageError("--release and --artifact go together")
    wanted = options.sources(paths, files, variables, var_files)
    resolver = pinning.Resolver(invocation, _variables(wanted), engine)
    changes = list(_changes(wanted, release, artifacts, resolver))
    outcomes = [o for c in changes for o in c.outcomes]
    for change in changes:
        if diff:
            terminal.data(
                rewrite.difference(change.before, change.after, str(change.path), terminal.out_paint)
            )
        elif not check and change.after != change.before:
            rewrite.write(change.path, change.after)
    if form == "json":
        terminal.data(json_text.render(_document(outcomes)))
    elif not diff:
        terminal.data(_text(outcomes))
    moved = [o for o in outcomes if o.kind == "moved"]
    if moved:
        terminal.say(
            "Moved: other bytes under the same version. Where that is not meant, find out who changed them; where it is, "
            "give them a new version, or allow it with rollout.allow_rebuild."
        )
    stale = any(c.after != c.before for c in changes)
    return ExitCode.ERROR if check and stale else ExitCode.OK


def _changes(
    wanted: Sources, release: str | None, artifacts: Sequence[str], resolver: Resolver
) -> list[Change]:
    from fleetctl.cli import pinning, rewrite

    if release is None:
        return [pinning.repinned(path, resolver) for path in rewrite.files(wanted.paths)]
    if len(wanted.paths) != 1:
        raise click.UsageError("--release goes into one file")
    path = wanted.paths[0] / RELEASES_FILE if wanted.paths[0].is_dir() else wanted.paths[0]
    sources = dict(pinning.parse_artifact(text) for text in artifacts)
    return [pinning.released(path, pinning.parse_release(release), sources, resolver)]


def _variables(wanted: Sources) -> dict[str, object]:
    """The variables of templates, as `load` reads them. Raises ManifestError."""
    from fleetctl.cli import rewrite
    from manifests.diagnostics import Diagnostic
    from manifests.errors import ManifestError
    from manifests.variables import from_file, from_option

    findings: list[Diagnostic] = []
    values: dict[str, object] = {}
    for path in wanted.var_files:
        values.update(from_file(rewrite.read(path), str(path), findings))
    for name, text in wanted.variables.items():
        values.update(from_option(name, text, findings))
    if any(f.is_error for f in findings):
        raise ManifestError(findings)
    return values


def _text(outcomes: Sequence[Outcome]) -> str:
    lines = []
    for o in outcomes:
        if o.kind == "moved":
            lines.append(f"moved   {o.address}: {o.before} -> {o.after} ({o.place})")
        elif o.kind == "pinned":
            lines.append(f"pinned  {o.address}: {o.after} ({o.place})")
    counts = {kind: sum(o.kind == kind for o in outcomes) for kind in ("pinned", "moved", "same")}
    lines.append(f"{counts['pinned']} pinned, {counts['moved']} moved, {counts['same']} as they were.")
    return "\n".join(lines)


def _document(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "format_version": "1.0",
        "artifacts": [
            {
                "artifact": o.address,
                "place": o.place,
                "source": o.source,
                "result": o.kind,
                "before": o.before,
                "after": o.after,
            }
            for o in outcomes
        ],
    }

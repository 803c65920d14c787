"""fleetctl doctor: whether everything that a rollout needs is there, and what to do where it is not. Touches nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, ManifestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from executors.checkup import Check

NAMES_MAX = 8


@click.command(short_help="Check hosts, rights, clocks and state, with the fix.")
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
    """Check this machine, the state, and every host of PATHS: reach, versions, clocks, rights, room.

    Each finding comes with what to do about it. Nothing is changed anywhere. Exits 1 when there is a problem;
    a warning is none.
    """
    from executors import checkup
    from fleetctl import bootstrap
    from fleetctl.cli import doctor, look
    from fleetctl.cli.views import doctor_text, json_text

    terminal = invocation.terminal
    wanted = options.sources(paths, files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    manifests, found = None, {}
    try:
        manifests = look.load(invocation, wanted)
        names = [*(f"fleet/{n}" for n in manifests.fleets), *(f"host/{n}" for n in manifests.hosts)]
        read = checkup.ok(
            "manifests", ", ".join(names[:NAMES_MAX]) + (" …" if len(names) > NAMES_MAX else "")
        )
    except ManifestError as error:
        errors = sum(d.is_error for d in error.diagnostics)
        read = checkup.problem("manifests", f"cannot be used: {errors} errors", "see them: fleetctl validate")
    local: Sequence[Check] = [read, *doctor.here(invocation, settings, manifests)]
    found["this machine"] = local
    if manifests is not None:
        with closing(bootstrap.access(settings, invocation.clock)) as reach:
            asked = doctor.examinations(manifests, reach)
            if asked:
                terminal.say(f"Asking {len(asked)} place{'s' if len(asked) > 1 else ''} …")
            found |= checkup.examine_all(asked, invocation.clock, settings.parallelism)
    if form == "json":
        terminal.data(json_text.render(doctor_text.document(found)))
    else:
        terminal.data(doctor_text.render(found, terminal.out_paint))
    return ExitCode.ERROR if doctor_text.count(found, checkup.Weight.PROBLEM) else ExitCode.OK

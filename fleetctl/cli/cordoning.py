"""cordon, uncordon, drain: the word about a host is said to every fleet that could be there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import completion, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from fleetctl.settings import Settings
    from manifests.manifest import Manifests


class NoSuchHost(FleetctlError):
    """No document of kind Host has this name."""

    code = "host.unknown"


def cordon_command(verb: str, short: str, text: str, *, cordoned: bool) -> click.Command:
    """The command that says of a host whether nodes may be started there."""

    @click.command(name=verb, short_help=short, help=text)
    @click.argument("host", metavar="HOST", shell_complete=completion.hosts)
    @options.manifest_options
    @options.state_options
    @click.pass_obj
    def command(
        invocation: Invocation,
        host: str,
        paths: tuple[Path, ...],
        files: tuple[Path, ...],
        variables: tuple[str, ...],
        var_files: tuple[Path, ...],
        state: str | None,
        parallelism: int | None,
    ) -> int:
        from fleetctl.cli import look

        wanted = options.sources(paths, files, variables, var_files)
        settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
        mark(invocation, settings, look.load(invocation, wanted), host, cordoned=cordoned)
        return ExitCode.OK

    return command


def ensure_known(manifests: Manifests, host: str) -> None:
    """Raises NoSuchHost."""
    if host not in manifests.hosts:
        raise NoSuchHost(
            f"no host is named {host}", hint=f"the manifests have {', '.join(sorted(manifests.hosts))}"
        )


def mark(
    invocation: Invocation, settings: Settings, manifests: Manifests, host: str, *, cordoned: bool
) -> None:
    """Writes the word for every fleet of the manifests and of the state, and says so."""
    from fleetctl import bootstrap
    from fleetctl.engine import cordon
    from fleetctl.engine.observer import Silent

    ensure_known(manifests, host)
    with (
        closing(bootstrap.open_store(settings, invocation.clock, read_only=False)) as store,
        closing(bootstrap.access(settings, invocation.clock)) as reach,
    ):
        engine = bootstrap.engine(settings, invocation.clock, store, Silent(), reach)
        fleets = sorted({*manifests.fleets, *store.fleets()})
        told = cordon.mark(engine, fleets, host, cordoned=cordoned)
    word = "cordoned" if cordoned else "uncordoned"
    if told:
        invocation.terminal.data(f"host/{host} is {word}, for {', '.join(f'fleet/{f}' for f in told)}.")
    else:
        invocation.terminal.data(f"host/{host} was {word} before; nothing was written.")

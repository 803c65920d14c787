"""fleetctl import: what runs already becomes a manifest, or (nodes of another state) part of this ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from executors.foreign import Foreign
    from fleetctl.cli.imported import Fate
    from fleetctl.settings import Settings
    from manifests.schema.host import Host

_KINDS = {"container": "docker", "unit": "host"}


@click.command(short_help="Adopt what runs into a manifest and the ledger.")
@click.argument("what", nargs=-1, required=True, metavar="WHAT...")
@options.source_options
@options.state_options
@click.option("--fleet", metavar="NAME", help="The new fleet's name.")
@click.option("--product", metavar="NAME", help="The product's name (default: the fleet's).")
@click.option("--version", "version", metavar="VERSION", help="What runs, where its image does not say it.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="The port, where it cannot be read.")
@click.option(
    "--into", type=click.Path(path_type=Path), metavar="FILE", help="The new manifest (default: FLEET.yaml)."
)
@options.approve_option
@click.pass_obj
def command(
    invocation: Invocation,
    what: tuple[str, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
    state: str | None,
    parallelism: int | None,
    fleet: str | None,
    product: str | None,
    version: str | None,
    port: int | None,
    into: Path | None,
    auto_approve: bool,
) -> int:
    """Adopt what runs into a manifest and the ledger.

    container/HOST/NAME and unit/HOST/NAME are things that fleetctl did not make: their settings are written as Release
    and Fleet documents (--fleet names the fleet). Neither can carry fleetctl's record, so each needs one replacement;
    what that takes and what it does not carry over is printed, and nothing on the host is touched.

    fleet/NAME and node/FLEET/NAME are nodes that another state has made: those that are as declared are taken over into
    this state's ledger, untouched; those that are not are named. Hosts come from the manifests of -f, or the current
    folder.
    """
    from fleetctl.cli import adopting

    wanted = options.sources((), files, variables, var_files)
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    foreign = [text for text in what if text.partition("/")[0] in _KINDS]
    if not foreign:
        given = (fleet, product, version, port, into)
        if any(g is not None for g in given):
            raise click.UsageError(
                "--fleet, --product, --version, --port and --into are for containers and units"
            )
        return adopting.adopt(invocation, wanted, settings, what, auto_approve=auto_approve)
    if len(foreign) < len(what):
        raise click.UsageError("containers and units are imported apart from nodes of another state")
    if fleet is None:
        raise click.UsageError("say what the new fleet is called: --fleet NAME")
    things = _things(invocation, wanted, settings, foreign)
    from fleetctl.cli import imported, rewrite
    from manifests.address import AddressError, is_name

    for name in (fleet, product or fleet):
        if not is_name(name):
            raise AddressError(
                f"{name!r} is no name", hint="1 to 63 characters of a-z, 0-9 and inner hyphens"
            )
    path = into or Path(f"{fleet}.yaml")
    if path.exists():
        raise imported.NotImportable(f"{path} is there already", hint="name a new file: --into FILE")
    wish = imported.Wish(fleet, product or fleet, version, port=port)
    text, fates = imported.documents(things, wish)
    rewrite.write(path, text.encode())
    invocation.terminal.data(f"Written: {path}\n")
    invocation.terminal.data(_text(fates))
    return ExitCode.OK


def _things(
    invocation: Invocation, wanted: options.Sources, settings: Settings, what: Sequence[str]
) -> list[Foreign]:
    from executors import registry
    from fleetctl import bootstrap
    from manifests.errors import ManifestError
    from manifests.schema.host import Docker
    from manifests.schema.host import Host as HostDocument

    found: list[Foreign] = []
    with closing(bootstrap.access(settings, invocation.clock)) as reach:
        hosts = _hosts(invocation, wanted)
        for text in what:
            kind, _, rest = text.partition("/")
            host, _, name = rest.partition("/")
            if not name:
                raise FleetctlError(
                    f"{text!r} names nothing",
                    hint="write container/HOST/NAME or unit/HOST/NAME",
                    code="address.invalid",
                )
            place = hosts.get(host)
            if place is None and host == "localhost":
                place = HostDocument(
                    api_version="fleetctl/v1", kind="Host", name="localhost", docker=Docker()
                )
            if place is None:
                raise FleetctlError(
                    f"no host is named {host}",
                    hint=f"add a document of kind Host; the manifests have {', '.join(sorted(hosts)) or 'none'}",
                    code="host.unknown",
                )
            try:
                found.append(
                    registry.foreign(place, "docker" if kind == "container" else "host", name, reach)
                )
            except ManifestError as e:
                raise FleetctlError(f"{text}: {e.message}") from e
    return found


def _hosts(invocation: Invocation, wanted: options.Sources) -> dict[str, Host]:
    """The hosts of the manifests, where there are any."""
    from fleetctl.cli import look, rewrite

    try:
        there = [*rewrite.files(wanted.paths)]
    except FleetctlError:
        return {}
    return dict(look.load(invocation, wanted).hosts) if there else {}


def _text(fates: Sequence[Fate]) -> str:
    lines = []
    for fate in fates:
        lines.append(f"{fate.what} becomes node {fate.node} by one replacement:")
        lines += [f"  {number}. {step}" for number, step in enumerate(fate.steps, 1)]
        lines += [f"  - not carried over: {text}" for text in fate.lost]
    lines.append("\nNothing was touched. Read the file, add a health probe, then: fleetctl plan")
    return "\n".join(lines)

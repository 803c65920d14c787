"""Options that several commands share, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from fleetctl import settings
from fleetctl.cli import completion
from fleetctl.cli.invocation import Invocation
from fleetctl.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
MANIFEST_SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Sources:
    """Where manifests come from: paths in the order given (later ones overlay earlier ones), and variables."""

    paths: tuple[Path, ...]
    variables: Mapping[str, str]
    var_files: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """The folder of the first manifest."""
        first = self.paths[0]
        return first if first.is_dir() else first.parent


def _debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        ctx.find_root().obj.debug = True


def debug_option(command: Command) -> Command:
    """--debug, wherever it is written."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_debug, help="Show tracebacks."
    )(command)


def _file(*names: str) -> Callable[[Command], Command]:
    return click.option(
        *names,
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="A manifest file or folder; may be repeated, later ones overlay earlier ones.",
    )


_file_option = _file("-f", "--file")
_paths = click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
_only_state_option = click.option(
    "--state",
    default=None,
    metavar="PLACE",
    help="The state's folder (default: .fleetctl beside the manifest), or s3://BUCKET/PREFIX.",
)


def _state_endpoint(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    if value:
        ctx.find_root().obj.state_endpoint = value


state_endpoint_option = click.option(
    "--state-endpoint",
    metavar="URL",
    expose_value=False,
    callback=_state_endpoint,
    help="The S3-compatible store that has the state's bucket (default: AWS).",
)


def only_state_options(command: Command) -> Command:
    """--state and --state-endpoint."""
    return _state_option(command)


def _state_option(command: Command) -> Command:
    """--state and --state-endpoint."""
    return _only_state_option(state_endpoint_option(command))


def manifest_options(command: Command) -> Command:
    """PATHS, -f, --var and --var-file."""
    return source_options(_paths(command))


def long_manifest_options(command: Command) -> Command:
    """The same where -f is another option's letter."""
    return _file("--file")(_paths(_variables(command)))


def source_options(command: Command) -> Command:
    """-f, --var and --var-file: for commands whose arguments are no manifests."""
    return _file_option(_variables(command))


def _variables(command: Command) -> Command:
    for decorate in (
        debug_option,
        click.option(
            "--var-file",
            "var_files",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Variables from a YAML file; may be repeated.",
        ),
        click.option(
            "--var",
            "variables",
            multiple=True,
            metavar="K=V",
            help="A variable; wins over files; may be repeated.",
        ),
    ):
        command = decorate(command)
    return command


parallelism_option = click.option(
    "--parallelism", type=int, default=None, metavar="N", help="Hosts worked on at once (default 10)."
)


def place_options(command: Command) -> Command:
    """PATHS and -f to find the state by, --state and --debug: for commands that read no manifest."""
    for decorate in (
        debug_option,
        _state_option,
        _file_option,
        _paths,
    ):
        command = decorate(command)
    return command


def _accept_new_host_keys(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    ctx.find_root().obj.accept_new_host_keys |= value


def host_options(command: Command) -> Command:
    """--state and --accept-new-host-keys."""
    return _state_option(
        click.option(
            "--accept-new-host-keys",
            is_flag=True,
            expose_value=False,
            callback=_accept_new_host_keys,
            help="Trust SSH hosts that are seen for the first time, and remember their keys.",
        )(command)
    )


def state_options(command: Command) -> Command:
    """--state, --parallelism and --accept-new-host-keys."""
    return parallelism_option(host_options(command))


target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="ADDRESS",
    shell_complete=completion.addresses,
    help="Only this: fleet/NAME, group/FLEET/NAME, node/FLEET/NAME or host/NAME; may be repeated.",
)
approved_option = click.option(
    "--approved",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The saved plan that was approved; whatever would do anything else is refused (exit 7).",
)


def _events(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    invocation: Invocation = ctx.find_root().obj
    invocation.events = value
    if value == "-":
        invocation.terminal.give_stdout_away()


events_option = click.option(
    "--events",
    metavar="FILE",
    expose_value=False,
    callback=_events,
    help="Append what happens to FILE, one JSON object a line; - is stdout.",
)
observed_option = click.option(
    "--observed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A snapshot of `inventory --format json`, instead of looking at the hosts.",
)
approve_option = click.option("--auto-approve", is_flag=True, help="Do not ask: for machines.")


accept_downtime_option = click.option(
    "--accept-downtime",
    is_flag=True,
    help="Allow transitions that no rolling pair covers, by stopping everything first.",
)


def plan_options(command: Command) -> Command:
    """--target, --accept-downtime and --adopt."""
    for decorate in (
        click.option("--adopt", is_flag=True, help="Take over nodes that another state has made."),
        accept_downtime_option,
        target_option,
    ):
        command = decorate(command)
    return command


def format_option(*formats: str) -> Callable[[Command], Command]:
    """--format, the first being the default."""

    def decorate(command: Command) -> Command:
        return click.option(
            "--format",
            "form",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="How it is printed.",
        )(command)

    return decorate


def sources(
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    var_files: tuple[Path, ...],
) -> Sources:
    """Where the manifests are: what was named, or the current folder. Raises UsageError for a --var without =."""
    return Sources(
        paths=(*files, *paths) or (Path(),),
        variables=dict(_variable(v) for v in variables),
        var_files=var_files,
    )


def duration_s(option: str, text: str) -> float:
    """What an option says of a time, in seconds. Raises UsageError."""
    from manifests.schema.base import duration_ms

    try:
        return duration_ms(text) / 1000
    except ValueError as e:
        raise click.UsageError(f"{option} {text!r}: {e}") from e


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--var {text!r} has no value: write --var NAME=VALUE")
    return name, value


def resolve_settings(
    invocation: Invocation, beside: Path, state: str | None, parallelism: int | None
) -> Settings:
    """The command's settings, checked."""
    return settings.resolve(
        invocation.environ,
        beside=beside,
        state=state,
        state_endpoint=invocation.state_endpoint,
        parallelism=parallelism,
        accept_new_host_keys=invocation.accept_new_host_keys,
    )

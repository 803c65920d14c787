"""What the environment and the options ask for, frozen and checked before anything starts.

    FLEETCTL_STATE         where the state lives            --state
    FLEETCTL_PARALLELISM   hosts worked on at once          --parallelism
    FLEETCTL_CACHE         where fetched artifacts are kept
    FLEETCTL_DEBUG         tracebacks                       --debug
    FLEETCTL_TIMINGS       phases and their seconds on stderr
    NO_COLOR               no colour, also on a terminal

An option wins over its variable; an empty variable counts as not set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import FleetctlError

# Beside the first manifest, so that two checkouts do not share a state by accident.
STATE_FOLDER = ".fleetctl"
PARALLELISM_DEFAULT = 10
# Threads are cheap until they are not: above this, the controller's own descriptors run out first.
PARALLELISM_MAX = 512


class SettingsError(FleetctlError):
    """A variable or an option cannot be what it says."""

    code = "settings.invalid"


@dataclass(frozen=True, slots=True)
class Settings:
    """One command's settings. `state` is a folder, absolute, made by the first apply; `cache` holds artifacts."""

    state: Path
    cache: Path
    parallelism: int = PARALLELISM_DEFAULT
    accept_new_host_keys: bool = False


def resolve(
    environ: Mapping[str, str],
    *,
    beside: Path,
    state: str | None = None,
    parallelism: int | None = None,
    accept_new_host_keys: bool = False,
) -> Settings:
    """Settings from the environment and the options given; `beside` is the folder of the first manifest.

    Raises SettingsError.
    """
    folder = _state(state or environ.get("FLEETCTL_STATE") or "", beside)
    cache = environ.get("FLEETCTL_CACHE")
    return Settings(
        state=folder,
        cache=Path(cache).absolute() if cache else folder / "cache",
        parallelism=_parallelism(parallelism, environ.get("FLEETCTL_PARALLELISM")),
        accept_new_host_keys=accept_new_host_keys,
    )


def _state(text: str, beside: Path) -> Path:
    if not text:
        return beside.absolute() / STATE_FOLDER
    if "\0" in text:
        raise SettingsError("the state's path holds a NUL character", hint="name a folder: --state DIR")
    if "://" in text:
        scheme = text.partition("://")[0]
        raise SettingsError(
            f"state in {scheme}:// is not supported by this release", hint="name a folder: --state DIR"
        )
    folder = Path(text).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise SettingsError(
            f"the state has to be a folder, and {folder} is a file", hint="name its folder: --state DIR"
        )
    return folder


def _parallelism(option: int | None, variable: str | None) -> int:
    name, value = "--parallelism", option
    if value is None:
        if not variable:
            return PARALLELISM_DEFAULT
        name = "FLEETCTL_PARALLELISM"
        value = int(variable) if variable.isascii() and variable.isdigit() else 0
    if not 1 <= value <= PARALLELISM_MAX:
        said = variable if option is None else option
        raise SettingsError(
            f"{name} is {said!s}, and has to be a whole number from 1 to {PARALLELISM_MAX}",
            hint="how many hosts are worked on at once; leave it out for " + str(PARALLELISM_DEFAULT),
        )
    return value

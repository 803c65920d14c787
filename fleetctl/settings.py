"""What the environment and the options ask for, frozen and checked before anything starts.

    FLEETCTL_STATE         where the state lives            --state
    FLEETCTL_STATE_ENDPOINT   an S3-compatible store        --state-endpoint
    FLEETCTL_PARALLELISM   hosts worked on at once          --parallelism
    FLEETCTL_CACHE         where fetched artifacts are kept
    FLEETCTL_DEBUG         tracebacks                       --debug
    FLEETCTL_TIMINGS       phases and their seconds on stderr
    NO_COLOR               no colour, also on a terminal

An option wins over its variable; an empty variable counts as not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from manifests.errors import FleetctlError

# Beside the first manifest, so that two checkouts do not share a state by accident.
STATE_FOLDER = ".fleetctl"
PARALLELISM_DEFAULT = 10
S3_SCHEME = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# What every compatible store takes, and no shell or URL changes.
_PREFIX = re.compile(r"[A-Za-z0-9._=/-]{0,512}")
# Threads are cheap until they are not: above this, the controller's own descriptors run out first.
PARALLELISM_MAX = 512


class SettingsError(FleetctlError):
    """A variable or an option cannot be what it says."""

    code = "settings.invalid"


@dataclass(frozen=True, slots=True)
class Settings:
    """One command's settings. `state` is a folder, absolute, made by the first apply; `cache` holds artifacts.

    With `remote` the state is there, and the folder is only this machine's own (its cache).
    """

    state: Path
    cache: Path
    parallelism: int = PARALLELISM_DEFAULT
    accept_new_host_keys: bool = False
    remote: RemoteState | None = None


@dataclass(frozen=True, slots=True)
class RemoteState:
    """A state in a bucket: s3://bucket/prefix, at a compatible store's URL or (None) where boto3's own chain says."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None


def resolve(
    environ: Mapping[str, str],
    *,
    beside: Path,
    state: str | None = None,
    state_endpoint: str | None = None,
    parallelism: int | None = None,
    accept_new_host_keys: bool = False,
) -> Settings:
    """Settings from the environment and the options given; `beside` is the folder of the first manifest.

    Raises SettingsError.
    """
    text = state or environ.get("FLEETCTL_STATE") or ""
    endpoint = state_endpoint or environ.get("FLEETCTL_STATE_ENDPOINT") or None
    remote = remote_state(text, endpoint) if text.startswith(S3_SCHEME) else None
    folder = _state("" if remote else text, beside)
    cache = environ.get("FLEETCTL_CACHE")
    return Settings(
        state=folder,
        cache=Path(cache).absolute() if cache else folder / "cache",
        parallelism=_parallelism(parallelism, environ.get("FLEETCTL_PARALLELISM")),
        accept_new_host_keys=accept_new_host_keys,
        remote=remote,
    )


def remote_state(text: str, endpoint: str | None) -> RemoteState:
    """The place that `s3://bucket/prefix` names. Raises SettingsError."""
    bucket, _, prefix = text.removeprefix(S3_SCHEME).partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKET.fullmatch(bucket):
        raise SettingsError(
            f"{text!r} names no bucket: {bucket!r} is not a bucket's name",
            hint="write s3://BUCKET/PREFIX; a bucket's name has 3 to 63 characters of a-z, 0-9, dots and hyphens",
        )
    strange = bool(prefix) and any(part in ("", ".", "..") for part in prefix.split("/"))
    if strange or not _PREFIX.fullmatch(prefix):
        raise SettingsError(
            f"{text!r} has a prefix that is not taken: {prefix!r}",
            hint="parts of letters, digits and - _ . = between single slashes, such as s3://BUCKET/teams/edge",
        )
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise SettingsError(
                f"the state's endpoint {endpoint!r} is not a URL of a store",
                hint="write --state-endpoint https://HOST[:PORT]; credentials come from the AWS settings",
            )
    return RemoteState(bucket, prefix, endpoint)


def _state(text: str, beside: Path) -> Path:
    if not text:
        return beside.absolute() / STATE_FOLDER
    if "\0" in text:
        raise SettingsError("the state's path holds a NUL character", hint="name a folder: --state DIR")
    if "://" in text:
        scheme = text.partition("://")[0]
        raise SettingsError(
            f"state in {scheme}:// is not supported by this release",
            hint="name a folder or a bucket: --state DIR, --state s3://BUCKET/PREFIX",
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

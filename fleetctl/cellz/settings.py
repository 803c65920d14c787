"""Every setting of the daemon, from flags and `CELLZ_*` variables, checked before anything starts.

The original falls back to a default when a number cannot be read; here that stops the start with the name
and the reason. Names and defaults of 0.2.1 are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fleetctl.cellz.errors import SettingsInvalid

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NODE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/\S*)?")


def _text(text: str) -> str:
    return text


def _path(text: str) -> Path:
    if not text:
        raise ValueError("is empty")
    return Path(text)


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]+", text):
            raise ValueError("is not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"is not between {low} and {high}")
        return value

    return parse


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            raise ValueError("is not a number of seconds")
        value = float(text)
        if not low <= value <= high:
            raise ValueError(f"is not between {low:g} and {high:g} seconds")
        return value

    return parse


def _flag(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in known:
        raise ValueError("is neither true nor false")
    return known[text.lower()]


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"is none of {', '.join(word or '(empty)' for word in words)}")
        return text

    return parse


def _level(text: str) -> str:
    return _one_of("debug", "info", "warning", "error")(text.lower())


def _node_id(text: str) -> str:
    if text and not _NODE_ID.fullmatch(text):
        raise ValueError("has other characters than A-Z a-z 0-9 . _ - or more than 64 of them")
    return text


def _address(text: str) -> str:
    if text and not _ADDRESS.fullmatch(text):
        raise ValueError("is not an http:// or https:// address")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class Sync:
    """When the blob store has a write: `commit` before the answer, `interval` soon after, `evict` at eviction."""

    mode: str
    interval_s: float = 0.0

    def __str__(self) -> str:
        return f"interval:{self.interval_s:g}s" if self.mode == "interval" else self.mode

    @property
    def loss_window(self) -> str:
        """Return what may be lost with the machine, in words, for `/state`."""
        if self.mode == "commit":
            return "none: an acknowledged write is in the blob store"
        if self.mode == "interval":
            return f"writes of the last {self.interval_s:g} s and of an upload under way; a paused holder's late writes"
        return "every write since the last backup, eviction or drain"


def _sync(text: str) -> Sync:
    if text in ("commit", "evict"):
        return Sync(text)
    found = re.fullmatch(r"interval:([0-9]+(?:\.[0-9]+)?)(ms|s)", text)
    if not found:
        raise ValueError("is none of commit, interval:<N>s, interval:<N>ms, evict")
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
    if not 0.01 <= seconds <= 3600:
        raise ValueError("has an interval outside 10 ms to 1 hour")
    return Sync("interval", seconds)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's role and the SHA-256 of its text; the text itself is never configured."""

    role: str
    sha256: bytes


def _api_keys(text: str) -> tuple[ApiKey, ...]:
    keys = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        role, colon, digest = part.partition(":")
        if not colon or role not in ("reader", "writer"):
            raise ValueError("has an entry that is not reader:<sha256> or writer:<sha256>")
        if not _SHA256.fullmatch(digest):
            raise ValueError(f"has a {role} entry whose digest is not 64 lower-case hexadecimal digits")
        keys.append(ApiKey(role, bytes.fromhex(digest)))
    if text and not keys:
        raise ValueError("names no key")
    return tuple(keys)


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(each.strip() for each in text.split(",") if each.strip())
    for origin in origins:
        if origin != "*" and not _ADDRESS.fullmatch(origin):
            raise ValueError(f"has {origin!r}, which is neither * nor an origin")
    return origins


def _setting(parse: Callable[[str], Any], default: str, help_: str, *also: str) -> Any:
    """Declare a setting: its parser, its default as text, its help, and variables to fall back to."""
    return field(metadata={"parse": parse, "default": default, "help": help_, "also": also})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. The variable of `lease_ttl` is CELLZ_LEASE_TTL, its flag --lease-ttl."""

    host: str = _setting(_text, "0.0.0.0", "Address to listen on.")  # noqa: S104  (the original's default)
    port: int = _setting(_whole(0, 65535), "8080", "Port to listen on; 0 lets the system choose.")
    data_dir: Path = _setting(_path, "./data/cells", "Folder of the cells' databases; one node each.")  # noqa: RUF009
    storage_dir: Path = _setting(_path, "./data/storage", "Folder of the blob store `local`.")  # noqa: RUF009
    lease_ttl: float = _setting(
        _seconds(0.5, 3600), "60", "Seconds after which a silent holder is taken over."
    )
    storage_backend: str = _setting(
        _one_of("", "local", "s3"), "", "local or s3; s3 when a bucket or endpoint is set."
    )
    s3_endpoint: str = _setting(_address, "", "Endpoint of the S3 service; that of AWS when empty.")
    s3_bucket: str = _setting(_text, "", "Bucket.")
    s3_access_key_id: str = _setting(_text, "", "Access key; as boto3 finds one when empty.")
    s3_secret_access_key: str = _setting(_text, "", "Secret key of that access key.")
    s3_region: str = _setting(_text, "", "Region.", "AWS_REGION")
    node_id: str = _setting(_node_id, "", "Stable node id; made once and kept in the data folder when empty.")
    advertise: str = _setting(
        _address, "", "Address that peers and clients are sent to; http://host:port when empty."
    )
    sync: Sync = _setting(  # noqa: RUF009  (declares a field)
        _sync, "interval:1s", "commit, interval:<N>s or evict: when the blob store has a write."
    )
    idle_timeout: float = _setting(
        _seconds(0, 86400), "300", "Seconds without a request before eviction; 0: never."
    )
    max_resident: int = _setting(
        _whole(1, 1_000_000), "20000", "Resident cells before the least used is evicted."
    )
    max_memory: int = _setting(
        _whole(0, 2**50), "0", "Bytes of memory of the process before eviction; 0: no cap."
    )
    max_open: int = _setting(_whole(8, 100_000), "256", "Open databases before the least used is closed.")
    workers: int = _setting(_whole(0, 256), "0", "Threads for SQLite; 0: 8, or 16 with sync commit.")
    max_body: int = _setting(_whole(1024, 2**31), "2097152", "Bytes of a request body.")
    max_event: int = _setting(_whole(256, 2**31), "2097152", "Bytes of one event's payload.")
    body_timeout: float = _setting(_seconds(0.1, 3600), "30", "Seconds in which a request body must arrive.")
    drain_timeout: float = _setting(_seconds(0.1, 3600), "20", "Seconds for finishing after SIGTERM.")
    forward: bool = _setting(_flag, "false", "Forward requests for cells held elsewhere instead of 421.")
    api_keys: tuple[ApiKey, ...] = _setting(
        _api_keys, "", "reader:<sha256>,writer:<sha256>; empty: no keys needed."
    )
    cors_origins: tuple[str, ...] = _setting(_origins, "", "Origins allowed by CORS; empty: off.")
    sse_keepalive: float = _setting(
        _seconds(0.05, 3600), "15", "Seconds between keep-alive comments of a stream."
    )
    snapshot_keep: int = _setting(_whole(1, 100), "2", "Snapshots kept of each cell.")
    snapshot_slots: int = _setting(
        _whole(1, 1_000_000), "256", "Places of the shared log before a new snapshot."
    )
    alarm_scan: float = _setting(
        _seconds(0.05, 3600), "5", "Seconds between looks for alarms of cells nobody holds."
    )
    release: str = _setting(
        _text, "", "Version shown by /health and /state; that of the installed distribution when empty."
    )
    log_level: str = _setting(_level, "info", "debug, info, warning or error.")
    otel: bool = _setting(_flag, "false", "Trace with OpenTelemetry, configured by its own OTEL_* variables.")

    @property
    def backend(self) -> str:
        """Return local or s3, chosen as the original chooses."""
        return self.storage_backend or ("s3" if self.s3_bucket or self.s3_endpoint else "local")

    @property
    def threads(self) -> int:
        """Return the number of SQLite threads; each may wait for the disk, in commit mode for the blob store."""
        return self.workers or (16 if self.sync.mode == "commit" else 8)


def load(environ: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    """Return the settings from `flags` (by field name), then variables, then defaults.

    Raises SettingsInvalid with every wrong setting, its name and the reason.
    """
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for each in fields(Settings):
        name = f"CELLZ_{each.name.upper()}"
        text, source = _find(each.name, name, each.metadata, environ, flags)
        try:
            values[each.name] = each.metadata["parse"](text)
        except ValueError as error:
            shown = "" if "secret" in each.name or "key" in each.name else f" {text!r}"
            wrong.append(f"{source}{shown} {error}")
    if not wrong:
        settings = Settings(**values)
        wrong = _together(settings)
        if not wrong:
            return settings
    raise SettingsInvalid("; ".join(wrong), hint="`cellz serve --help` lists every setting")


def _find(
    name: str,
    variable: str,
    metadata: Mapping[str, Any],
    environ: Mapping[str, str],
    flags: Mapping[str, str | None],
) -> tuple[str, str]:
    flag = flags.get(name)
    if flag is not None:
        return flag, "--" + name.replace("_", "-")
    for each in (variable, *metadata["also"]):
        if each in environ:
            return environ[each].strip(), each
    return metadata["default"], variable


def _together(settings: Settings) -> list[str]:
    """Return what is wrong with settings that are each right."""
    wrong = []
    if settings.backend == "s3" and not settings.s3_bucket:
        wrong.append("CELLZ_S3_BUCKET is empty, and the blob store is s3")
    if bool(settings.s3_access_key_id) != bool(settings.s3_secret_access_key):
        wrong.append("CELLZ_S3_ACCESS_KEY_ID and CELLZ_S3_SECRET_ACCESS_KEY come together")
    if settings.max_event > settings.max_body:
        wrong.append("CELLZ_MAX_EVENT is above CELLZ_MAX_BODY")
    if settings.sync.mode == "interval" and settings.sync.interval_s > settings.lease_ttl:
        wrong.append("CELLZ_SYNC has an interval above CELLZ_LEASE_TTL")
    return wrong


def unknown(environ: Mapping[str, str]) -> list[str]:
    """Return CELLZ_* variables that name no setting: most likely misspelt."""
    known = {f"CELLZ_{each.name.upper()}" for each in fields(Settings)}
    return sorted(name for name in environ if name.startswith("CELLZ_") and name not in known)

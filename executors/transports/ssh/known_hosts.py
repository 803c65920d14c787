"""known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): what they say about a host and a key.

A line we cannot use is passed over with a warning that names it; it never makes the rest of the file
useless. The file is only read, or appended to when that was asked for; it is never rewritten.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

DEFAULT_PORT = 22


class Verdict(Enum):
    """What the files say about the key that a host showed."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Line:
    """One usable line: its host patterns, the key's type and raw blob, and whether it revokes."""

    patterns: tuple[str, ...]
    key_type: str
    blob: bytes
    revoked: bool
    place: str


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """The usable lines of some files, and one warning for each line that was passed over."""

    lines: tuple[Line, ...]
    warnings: tuple[str, ...] = ()

    def check(self, name: str, port: int, key_type: str, blob: bytes) -> tuple[Verdict, tuple[str, ...]]:
        """The verdict for a key, and the places that led to it."""
        revoked = tuple(
            n.place for n in self.lines if n.revoked and n.blob == blob and _names(n.patterns, name, port)
        )
        if revoked:
            return Verdict.REVOKED, revoked
        known = [n for n in self.lines if not n.revoked and _names(n.patterns, name, port)]
        same = tuple(n.place for n in known if n.key_type == key_type and n.blob == blob)
        if same:
            return Verdict.KNOWN, same
        return (Verdict.CHANGED, tuple(n.place for n in known)) if known else (Verdict.UNKNOWN, ())

    def key_types(self, name: str, port: int) -> tuple[str, ...]:
        """The key types known for a host, so that the server is asked for one of these first."""
        return tuple(
            dict.fromkeys(n.key_type for n in self.lines if not n.revoked and _names(n.patterns, name, port))
        )


def load(paths: Iterable[Path]) -> KnownHosts:
    """Reads the files that exist; an unreadable one is a warning, since it can only make hosts unknown."""
    lines: list[Line] = []
    warnings: list[str] = []
    for path in paths:
        try:
            text = path.read_bytes().decode("utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError as e:
            warnings.append(f"{path}: cannot be read: {e.strerror}")
            continue
        for number, raw in enumerate(text.splitlines(), 1):
            parsed = parse_line(raw, f"{path}:{number}")
            if isinstance(parsed, Line):
                lines.append(parsed)
            elif parsed:
                warnings.append(parsed)
    return KnownHosts(tuple(lines), tuple(warnings))


def parse_line(raw: str, place: str) -> Line | str | None:
    """One line: a Line, a warning as text, or None for blank lines and comments."""
    words = raw.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if marker == "@cert-authority":
        return f"{place}: @cert-authority is passed over: host certificates are not supported"
    if marker not in ("", "@revoked"):
        return f"{place}: passed over: unknown marker {marker}"
    if len(words) < 3:
        return f"{place}: passed over: hosts, key type and key are expected"
    hosts, key_type, encoded = words[:3]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return f"{place}: passed over: the key is not whole base64"
    if _blob_type(blob) != key_type:
        return f"{place}: passed over: the key is damaged, or not of type {key_type}"
    return Line(tuple(hosts.split(",")), key_type, blob, marker == "@revoked", place)


def entry_name(name: str, port: int) -> str:
    """A host as the file names it: `name`, or `[name]:port` off the default port."""
    return name.lower() if port == DEFAULT_PORT else f"[{name.lower()}]:{port}"


def fingerprint(blob: bytes) -> str:
    """SHA256:<base64 without padding>, as ssh prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _blob_type(blob: bytes) -> str | None:
    if len(blob) < 4:
        return None
    length = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + length].decode("ascii", errors="replace") if len(blob) > 4 + length else None


def _names(patterns: tuple[str, ...], name: str, port: int) -> bool:
    wanted = entry_name(name, port)
    hit = False
    for pattern in patterns:
        if pattern.startswith("|1|"):
            hit = hit or _hashed(pattern, wanted)
            continue
        negated = pattern.startswith("!")
        if _glob(wanted, pattern.removeprefix("!").lower()):
            if negated:
                return False
            hit = True
    return hit


def _glob(wanted: str, pattern: str) -> bool:
    # Only * and ? are special in known_hosts; brackets belong to [host]:port.
    return fnmatch.fnmatchcase(wanted, pattern.replace("[", "[[]"))


def _hashed(pattern: str, wanted: str) -> bool:
    try:
        salt, digest = (base64.b64decode(p, validate=True) for p in pattern.split("|")[2:4])
    except (binascii.Error, ValueError):
        return False
    # The file format is HMAC-SHA-1; it hides names and authenticates nothing.
    return hmac.compare_digest(hmac.new(salt, wanted.encode(), hashlib.sha1).digest(), digest)

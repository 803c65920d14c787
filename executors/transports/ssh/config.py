"""ssh_config(5) as far as a connection needs it: the same host, port, user and jumps that `ssh -G` gives.

Own evaluation, because paramiko's parser knows no Include and fails on some Match lines. What would
change where we connect and cannot be evaluated here (Match exec, ProxyCommand, CanonicalizeHostname)
is an error that names the line, never ignored.
"""

from __future__ import annotations

import fnmatch
import getpass
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from executors.transports.ssh.errors import SshConfigError

# OpenSSH allows 16 levels of Include; deeper is a cycle.
INCLUDE_DEPTH_MAX = 16
_MANY = frozenset({"identityfile", "certificatefile"})


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What the file says about one host name, tokens expanded. None and empty: not said."""

    hostname: str
    port: int | None = None
    user: str | None = None
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None
    proxy_jump: tuple[str, ...] = ()
    known_hosts: tuple[Path, ...] | None = None
    host_key_alias: str | None = None
    connect_timeout_s: int | None = None


@dataclass
class _Evaluation:
    """One pass over the files for one host name; the first value of a key wins."""

    original: str
    user: str | None
    home: Path
    final: bool = False
    values: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    wants_final: bool = False

    def hostname(self) -> str:
        given = self.values.get("hostname")
        return given[0].replace("%h", self.original).replace("%%", "%") if given else self.original

    def remote_user(self) -> str:
        if self.user:
            return self.user
        given = self.values.get("user")
        return given[0] if given else getpass.getuser()


def lookup(path: Path | None, name: str, *, user: str | None = None, home: Path | None = None) -> HostConfig:
    """What the file at `path` (None or missing: nothing) says about `name`; `user` is one given elsewhere.

    Raises SshConfigError, with file and line, for what cannot be read or evaluated.
    """
    home = home or Path.home()
    state = _Evaluation(name, user, home)
    if path is not None and path.exists():
        _read(path, state, active=True, depth=0)
        if state.wants_final:
            # `Match final` asks for a second pass that sees the results of the first.
            state.final = True
            _read(path, state, active=True, depth=0)
    return _result(state)


def _read(path: Path, state: _Evaluation, *, active: bool, depth: int) -> None:
    if depth > INCLUDE_DEPTH_MAX:
        raise SshConfigError(
            f"{path}: Include goes deeper than {INCLUDE_DEPTH_MAX} levels", hint="look for a cycle"
        )
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as e:
        raise SshConfigError(f"{path}: cannot be read: {e.strerror}") from e
    enclosing = active
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}:{number}"
        words = _words(line, place)
        if not words:
            continue
        key, args = words[0].lower(), words[1:]
        if not args:
            raise SshConfigError(f"{place}: {words[0]} has no value")
        if key == "host":
            active = enclosing and _matches(args, state.original)
        elif key == "match":
            active = enclosing and _match(args, state, place)
        elif key == "include":
            if active:
                for included in _included(args, path, state.home):
                    _read(included, state, active=True, depth=depth + 1)
        elif active:
            _assign(key, args, place, state)


def _words(line: str, place: str) -> list[str]:
    line = line.strip()
    if not line or line.startswith("#"):
        return []
    head, separator, rest = line.partition("=")
    if separator and " " not in head.strip() and "\t" not in head.strip() and '"' not in head:
        line = f"{head.strip()} {rest.strip()}"
    try:
        return shlex.split(line, comments=True)
    except ValueError as e:
        raise SshConfigError(f"{place}: {e}") from e


def _included(args: list[str], path: Path, home: Path) -> Iterator[Path]:
    for pattern in args:
        expanded = pattern.replace("~", str(home), 1) if pattern.startswith("~") else pattern
        # Relative patterns are relative to ~/.ssh in a user's file; beside the file is the same there.
        base = path.parent / expanded  # an absolute pattern stays itself
        yield from sorted(Path(base.anchor).glob(str(base.relative_to(base.anchor))))


def _matches(patterns: list[str], name: str) -> bool:
    """Host patterns: any may match, a matching negated one vetoes; case does not matter."""
    hit = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        if fnmatch.fnmatchcase(name.lower(), pattern.removeprefix("!").lower()):
            if negated:
                return False
            hit = True
    return hit


def _match(args: list[str], state: _Evaluation, place: str) -> bool:
    rest = list(args)
    while rest:
        word = rest.pop(0)
        negated, criterion = word.startswith("!"), word.removeprefix("!").lower()
        if criterion == "all":
            held = True
        elif criterion == "final":
            state.wants_final = True
            held = state.final
        elif criterion == "canonical":
            held = False  # canonicalization is refused below, so a name never is canonical
        else:
            if not rest:
                raise SshConfigError(f"{place}: Match {criterion} has no value")
            held = _criterion(criterion, rest.pop(0), state, place)
        if held == negated:
            return False
    return True


def _criterion(criterion: str, value: str, state: _Evaluation, place: str) -> bool:
    patterns = value.split(",")
    if criterion == "host":
        return _matches(patterns, state.hostname())
    if criterion == "originalhost":
        return _matches(patterns, state.original)
    if criterion == "user":
        return _matches(patterns, state.remote_user())
    if criterion == "localuser":
        return _matches(patterns, getpass.getuser())
    raise SshConfigError(
        f"{place}: Match {criterion} cannot be evaluated here",
        hint="write what it decides into the Host document (ssh: address, port, user, jump), or name another config_file",
    )


def _assign(key: str, args: list[str], place: str, state: _Evaluation) -> None:
    if key in _MANY:
        if args[0] not in state.values.setdefault(key, []):
            state.values[key].append(args[0])
    elif key not in state.values:
        state.values[key] = args
        state.places[key] = place


def _result(state: _Evaluation) -> HostConfig:
    values = state.values

    def one(key: str) -> str | None:
        given = values.get(key)
        return given[0] if given else None

    _refuse_unsupported(state)
    port = one("port")
    if port is not None and not (port.isdecimal() and 0 < int(port) < 65536):
        raise SshConfigError(f"{state.places['port']}: Port {port} is not a port")
    timeout = one("connecttimeout")
    tokens = _tokens(state, port)
    jump = one("proxyjump")
    known = values.get("userknownhostsfile")
    agent = one("identityagent")
    return HostConfig(
        hostname=state.hostname(),
        port=int(port) if port else None,
        user=one("user"),
        identity_files=tuple(
            _path(p, tokens, state.home) for p in values.get("identityfile", []) if p != "none"
        ),
        identities_only=one("identitiesonly") == "yes",
        identity_agent=None
        if agent is None
        else str(_path(agent, tokens, state.home))
        if agent != "none"
        else "none",
        proxy_jump=()
        if jump in (None, "none")
        else tuple(_expand(j, tokens) for j in (jump or "").split(",")),
        known_hosts=None
        if known is None
        else tuple(_path(p, tokens, state.home) for p in known if p != "none"),
        host_key_alias=one("hostkeyalias"),
        connect_timeout_s=int(timeout) if timeout and timeout.isdecimal() else None,
    )


def _refuse_unsupported(state: _Evaluation) -> None:
    command = state.values.get("proxycommand")
    if command and command[0].lower() != "none":
        raise SshConfigError(
            f"{state.places['proxycommand']}: ProxyCommand is not supported",
            hint="use ProxyJump, or set ssh.jump in the Host document",
        )
    canonicalize = state.values.get("canonicalizehostname")
    if canonicalize and canonicalize[0].lower() != "no":
        raise SshConfigError(
            f"{state.places['canonicalizehostname']}: CanonicalizeHostname is not supported",
            hint="write the full name into the Host document's ssh.address",
        )


def _tokens(state: _Evaluation, port: str | None) -> dict[str, str]:
    local = socket.gethostname()
    return {
        "%h": state.hostname(), "%n": state.original, "%p": port or "22", "%r": state.remote_user(),
        "%u": getpass.getuser(), "%d": str(state.home), "%l": local, "%L": local.split(".", maxsplit=1)[0], "%%": "%",
    }  # fmt: skip


def _expand(text: str, tokens: dict[str, str]) -> str:
    out, rest = "", text
    while "%" in rest:
        head, _, rest = rest.partition("%")
        token = "%" + rest[:1]
        out += head + tokens.get(token, token)
        rest = rest[1:]
    return out + rest


def _path(text: str, tokens: dict[str, str], home: Path) -> Path:
    expanded = _expand(text, tokens)
    return Path(str(home) + expanded[1:]) if expanded.startswith("~") else Path(expanded)

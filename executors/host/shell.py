"""Text as POSIX shell: quoting, and the launch script and environment that a node starts with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from executors.driver import DriverError, Operation
from executors.host.layout import Layout
from manifests.schema.fleet import Limits
from manifests.secret import Secret
from planner.spec import SecretUse

# POSIX shells split a script at newlines and know no NUL; everything else may stand in single quotes.
_QUOTE = "'\\''"


class ValueNotPlaceable(DriverError):
    """A value cannot be an environment variable: it holds a NUL."""

    code = "host.value"


def quote(text: str) -> str:
    """The text as one word in single quotes, whatever it holds."""
    return "'" + text.replace("'", _QUOTE) + "'"


def assign(name: str, value: str | int) -> str:
    """One assignment in a line."""
    return f"{name}={quote(str(value))}"


def octal(data: bytes) -> str:
    """Bytes for printf's %b: what is not plain ASCII as \\0ooo."""
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\0{b:03o}" for b in data)


def env_entries(operation: Operation, secrets: Mapping[str, Secret]) -> dict[str, tuple[str, bool]]:
    """The lines of the environment file by variable: (line, whether it is secret).

    The form is understood by sh and by systemd's EnvironmentFile alike. Raises ValueNotPlaceable.
    """
    entries: dict[str, tuple[str, bool]] = {}
    for name, value in operation.spec.env.items():
        secret = isinstance(value, SecretUse)
        text = secrets[value.secret].reveal() if isinstance(value, SecretUse) else value
        if "\0" in text:
            raise ValueNotPlaceable(f"the variable {name} of node {operation.node} holds a NUL byte")
        entries[name] = (f"{name}={_double_quoted(text)}", secret)
    return entries


def _double_quoted(text: str) -> str:
    """The one form of quoting that sh and systemd's EnvironmentFile read alike."""
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def launch(layout: Layout, operation: Operation) -> str:
    """The script that becomes the node's program: folder, limits, environment, user, command."""
    spec = operation.spec
    command = shlex.join(spec.command)
    lines = [f"cd {quote(layout.node(operation.uid))} || exit 126", *_limits(spec.limits)]
    lines += ["set -a", ". ./env", "set +a"]
    if spec.user is not None:
        user = quote(spec.user)
        lines += [
            f'if [ "$(id -un)" != {user} ]; then',
            "  if command -v setpriv >/dev/null 2>&1; then",
            f'    exec setpriv --reuid {user} --regid "$(id -g {user})" --init-groups -- {command}',
            "  fi",
            f'  exec su -s /bin/sh {user} -c \'exec "$0" "$@"\' -- {command}',
            "fi",
        ]
    lines.append(f"exec {command}")
    return "\n".join(lines) + "\n"


def _limits(limits: Limits) -> list[str]:
    lines = []
    if limits.memory is not None:
        # The one memory limit that sh can set: the size of the address space, in KiB.
        lines.append(f"ulimit -v {max(1, limits.memory // 1024)} || exit 126")
    if limits.open_files is not None:
        lines.append(f"ulimit -n {limits.open_files} || exit 126")
    if limits.processes is not None:
        # dash and busybox say -p where bash says -u.
        lines.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes} || exit 126")
    return lines

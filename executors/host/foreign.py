"""A systemd unit that somebody else has written, read as far as a node of fleetctl could be made like it."""

from __future__ import annotations

import re
import shlex
from posixpath import basename

from executors.command import Command
from executors.foreign import Foreign, NotThere
from executors.host.commands import SHELL
from executors.host.shell import assign
from executors.host.supervisor import script
from executors.transport import Transport

TIMEOUT_S = 30.0
# What runs is then the file that they are given, not they.
_INTERPRETERS = re.compile(r"(python|perl|ruby|node|php|bash|dash|sh|java|busybox)[0-9.]*")
_OURS = re.compile(r"fleetctl-[a-z2-7]{16}\.service")


def look(transport: Transport, host: str, unit: str) -> Foreign:
    """Reads a unit and the process that is its main one. Raises NotThere, TransportError, OutcomeLost."""
    name = unit if "." in unit else f"{unit}.service"
    if _OURS.fullmatch(name):
        raise NotThere(
            f"{name} is a node of fleetctl already", hint="take it over as one: fleetctl import fleet/NAME"
        )
    done = transport.run(command(name))
    return read(done.stdout, host, name)


def command(unit: str) -> Command:
    """Everything that is asked, in one exec."""
    text = f"{assign('unit', unit)}\n{script('foreign.sh')}main\n"
    return Command(SHELL, text.encode(), timeout_s=TIMEOUT_S)


def read(stdout: bytes, host: str, unit: str) -> Foreign:
    """What the script's answer means. Raises NotThere."""
    lines = stdout.decode(errors="replace").splitlines()
    facts: dict[str, str] = {}
    files: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition("=")
        if key == "file":
            digest, _, path = value.partition("  ")
            files[path] = f"sha256:{digest}"
        else:
            facts[key] = value
    if "end" not in lines or facts.get("LoadState") != "loaded":
        raise NotThere(
            f"host/{host} has no unit {unit}", hint="systemctl list-units --type service lists them"
        )
    argv = tuple(bytes.fromhex(facts.get("cmdline", "")).decode(errors="replace").rstrip("\0").split("\0"))
    artifact = _artifact(facts.get("exe", ""), argv, files)
    if artifact is None:
        raise NotThere(
            f"{unit} on host/{host} runs no process whose program can be read",
            hint="start it, and read it as root (ssh.become)",
        )
    return Foreign(
        name=unit.removesuffix(".service"),
        host=host,
        substrate="host",
        running=True,
        artifact=artifact,
        digest=files[artifact],
        version="",
        command=tuple(
            artifact if n == 0 and artifact == facts.get("exe") else word for n, word in enumerate(argv)
        ),
        env=dict(text.split("=", 1) for text in _words(facts.get("Environment", "")) if "=" in text),
        user=facts.get("User") or None,
        limits=_limits(facts),
        lost=_unlike(facts),
        stop=f"systemctl disable --now {unit}",
    )


def _artifact(exe: str, argv: tuple[str, ...], files: dict[str, str]) -> str | None:
    """The file that is the program: of an interpreter the first file that it was given."""
    if _INTERPRETERS.fullmatch(basename(exe)):
        given = next((word for word in argv[1:] if word in files), None)
        if given is not None:
            return given
    return exe if exe in files else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _limits(facts: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    if facts.get("MemoryMax", "").isdigit():
        found["memory"] = f"{facts['MemoryMax']}B"
    return found


def _unlike(facts: dict[str, str]) -> tuple[str, ...]:
    lost = []
    if facts.get("EnvironmentFiles"):
        lost.append(
            f"variables of {facts['EnvironmentFiles'].split(' ')[0]} are not read: write them, or refer to secrets"
        )
    if facts.get("DynamicUser") == "yes":
        lost.append("its dynamic user becomes one of fleetctl's: files that it wrote belong to nobody")
    if facts.get("WorkingDirectory") not in (None, "", "/"):
        lost.append(
            f"its working directory {facts['WorkingDirectory']} becomes the node's own; data there is not moved"
        )
    lost.append("what it wrote stays where it is; a node's own data lies below its host's root")
    return tuple(lost)

"""The supervisor `systemd`: a unit per node out of a template, and the gate that notes its starts and ends."""

from __future__ import annotations

import re
from string import Template

from executors.driver import DriverError, Operation
from executors.host.layout import Layout
from executors.host.placed import PlacedFile
from executors.host.supervisor import Placement, Supervisor, script
from planner.spec import NodeSpec

UNIT_FOLDER = "/etc/systemd/system"
# systemd ends what does not stop this long after the drain timeout: later than the guarded script does, and only
# if that was cut off.
STOP_MARGIN_S = 15
PRIVILEGED_PORTS = 1024
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class UnitError(DriverError):
    """A node cannot be written as a unit."""

    code = "host.unit"


def unit_name(uid: str) -> str:
    """The unit of a node: its uid never changes, so a rename needs no other unit."""
    return f"fleetctl-{uid}.service"


def unit(layout: Layout, operation: Operation) -> str:
    """The unit's text. Without a user of its own a node gets a dynamic one."""
    spec = operation.spec
    folder = layout.node(operation.uid)
    if not _PLAIN.fullmatch(folder):
        raise UnitError(
            f"the root {layout.root!r} cannot stand in a systemd unit", hint="use a path without spaces"
        )
    data = f"{folder}/{spec.data.path}" if spec.data is not None else folder
    return Template(script("node.service")).substitute(
        node=_comment(operation.node),
        fleet=_comment(operation.fleet),
        folder=_literal(folder),
        owned=_literal(f"{folder}/owned"),
        command=" ".join(_word(w) for w in spec.command),
        identity="\n".join(_identity(operation.uid, spec)),
        signal=f"SIG{spec.drain.signal}",
        stop_s=f"{-(-spec.drain.timeout // 1000) + STOP_MARGIN_S}s",
        writable=_literal(data),
        limits="".join(f"{line}\n" for line in _limits(spec)),
    )


def _identity(uid: str, spec: NodeSpec) -> list[str]:
    if spec.user is not None:
        lines = [f"User={_literal(spec.user)}"]
    else:
        # The runtime directory belongs to the dynamic user, which tells `gate` its number.
        lines = ["DynamicUser=yes", f"User=fleetctl-{uid[:16]}", f"RuntimeDirectory=fleetctl-{uid}"]
    if spec.port is not None and spec.port < PRIVILEGED_PORTS and spec.user != "root":
        lines.append("AmbientCapabilities=CAP_NET_BIND_SERVICE")
    return lines


def _limits(spec: NodeSpec) -> list[str]:
    limits = spec.limits
    lines = []
    if limits.memory is not None:
        lines.append(f"MemoryMax={limits.memory}")
    if limits.open_files is not None:
        lines.append(f"LimitNOFILE={limits.open_files}")
    if limits.processes is not None:
        lines.append(f"TasksMax={limits.processes}")
    return lines


def _word(text: str) -> str:
    """One argument as systemd.service(5) reads it: % and $ doubled, the rest in double quotes where needed."""
    doubled = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if any(ord(c) < 32 for c in escaped):
        raise UnitError(f"the argument {text!r} holds a control character that a unit cannot hold")
    return f'"{escaped}"'


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _comment(text: str) -> str:
    return text.replace("\n", " ").replace("%", "%%").replace("\\", "")


def _placement(layout: Layout, operation: Operation) -> Placement:
    path = f"{UNIT_FOLDER}/{unit_name(operation.uid)}"
    spec = operation.spec
    own = {"gate": script("gate.sh")}
    owned = [layout.file(operation.uid, f.path) for f in spec.files]
    if spec.data is not None:
        owned.append(f"{layout.node(operation.uid)}/{spec.data.path}")
    if spec.user is None:
        own["owned"] = "".join(f"{p}\n" for p in owned)
    else:
        own["owned"] = ""
    text = unit(layout, operation)
    return Placement(own, (PlacedFile("unit", path, "0644", False, text.encode()),))


SYSTEMD = Supervisor("systemd", "supervisor_systemd.sh", _placement)

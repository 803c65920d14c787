"""The table of supervisors: the first is the default."""

from __future__ import annotations

from executors.host.process import PROCESS
from executors.host.supervisor import Supervisor, script
from executors.host.systemd import SYSTEMD

SUPERVISORS: dict[str, Supervisor] = {s.name: s for s in (PROCESS, SYSTEMD)}


def fragments() -> str:
    """The shell functions of all supervisors."""
    return "".join(script(s.fragment) for s in SUPERVISORS.values())

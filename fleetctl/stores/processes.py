"""What a store must know of processes on this machine, to tell a dead holder of a lease from a live one."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Protocol

from fleetctl.ledger.ports import Holder

# Fields of /proc/PID/stat after the command's closing parenthesis: state is the first, start time the 20th.
_STATE, _STARTED = 0, 19


class Processes(Protocol):
    """The machine as a lease sees it."""

    def machine(self) -> str:
        """Names this boot of this machine and the namespace that its pids are numbered in."""
        ...

    def started(self, pid: int) -> int | None:
        """When that process started, in clock ticks since boot; None: there is no such process."""
        ...


class SystemProcesses:
    """The machine's own answers, from /proc."""

    def machine(self) -> str:
        # Two containers share a boot id and number their processes apart: the namespace tells them apart.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"

    def started(self, pid: int) -> int | None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        if fields[_STATE] in ("Z", "X"):
            return None
        return int(fields[_STARTED])


def this_process(processes: Processes, *, run: str, who: str, command: str) -> Holder:
    """This process as the holder of a lease."""
    pid = os.getpid()
    return Holder(
        run=run,
        who=who,
        command=command,
        host=socket.gethostname(),
        boot_id=processes.machine(),
        pid=pid,
        pid_started=processes.started(pid) or 0,
    )

"""Who runs where in a benchmark: the daemon under test has one processor, whoever loads it the others.

Both daemons and the generators also get the same raised priority, where that is allowed, so that other programs
on the machine meet all of them alike. Sessions have a share of the processors each (autogroup), which counts for
more than the priority inside; it is raised as well.
"""

from __future__ import annotations

import os
from pathlib import Path

_PRIORITY = -20
ALL = frozenset(os.sched_getaffinity(0))
SERVER = frozenset({max(ALL)})
GENERATOR = ALL - SERVER or ALL


def prefer(pid: int) -> bool:
    """Raise the priority of a process and its session; return whether that was allowed."""
    try:
        own = os.getpriority(os.PRIO_PROCESS, pid)
        for thread in Path(f"/proc/{pid}/task").iterdir():
            # A thread that gives way to its siblings goes on doing so.
            nicer = max(0, os.getpriority(os.PRIO_PROCESS, int(thread.name)) - own)
            os.setpriority(os.PRIO_PROCESS, int(thread.name), _PRIORITY + nicer)
        group = Path(f"/proc/{pid}/autogroup")
        if group.exists():
            group.write_text(str(_PRIORITY))
    except OSError:
        return False
    return True


def pin(pid: int, cores: frozenset[int]) -> None:
    """Give every thread of a process those processors; threads that it starts inherit them."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)

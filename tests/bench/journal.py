"""The journal's load: so many transitions of operations into the embedded store, as the engine writes them.

Run as a program it prints JSON; `syncs` counts the sync calls of such a run from outside, by strace.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from executors.clock import SystemClock, rfc3339
from fleetctl.bootstrap import open_store
from fleetctl.ledger import entries
from fleetctl.ledger.operations import By, Record, State
from fleetctl.settings import Settings
from fleetctl.stores.processes import SystemProcesses, this_process

FLEET = "bench"
MOVES = ((State.INTENDED, By.ENGINE), (State.DISPATCHED, By.ENGINE), (State.SUCCEEDED, By.ANSWER))


def load(folder: Path, transitions: int) -> dict[str, float]:
    """Appends that many transitions, one by one; gives milliseconds of CPU and of wall clock for each."""
    clock = SystemClock()
    store = open_store(Settings(folder / "state", folder / "cache"), clock, read_only=False)
    store.initialise()
    holder = this_process(SystemProcesses(), run="r", who="bench", command="bench")
    lease = store.acquire(FLEET, holder, 30.0)
    context = entries.Context(FLEET, "lineage", "r", lease.epoch)
    head = store.head(FLEET)
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for n in range(transitions):
        state, by = MOVES[n % 3]
        record = Record(
            operation_id=f"op-{n // 3:040x}",
            attempt=1,
            uid="abcdefghijklmnop",
            node=f"web-{n // 3}",
            generation=1,
            effect="start",
            request_sha256="0" * 64,
            step=str(n // 3),
            run="r",
            epoch=lease.epoch,
            state=state,
            by=by,
            evidence={"pid": 1234, "started": 987654321},
        )
        store.check(lease)
        sealed = entries.seal([entries.operation(replace(record))], context, head, rfc3339(clock.now()))
        head = store.append(FLEET, head.sequence, sealed, lease.epoch)
    cpu_s, wall_s = time.process_time() - begun_cpu_s, time.perf_counter() - begun_s
    size_b = len(entries.encode(sealed[0]))
    store.release(lease)
    store.close()
    return {
        "cpu_ms": 1000 * cpu_s / transitions,
        "wall_ms": 1000 * wall_s / transitions,
        "bare_ms": _bare(folder / "bare", transitions, size_b),
        "entry_b": size_b,
    }


def _bare(path: Path, times: int, size_b: int) -> float:
    """Milliseconds of one append and fsync of as many bytes to a plain file on the same disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    begun_s = time.perf_counter()
    for _ in range(times):
        os.write(descriptor, b"x" * size_b)
        os.fsync(descriptor)
    wall_s = time.perf_counter() - begun_s
    os.close(descriptor)
    return 1000 * wall_s / times


def syncs(transitions: int) -> int | None:
    """How often a run of that many transitions asks the kernel to sync, the bare file's own apart; None: no strace."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        done = subprocess.run(
            [
                *(strace, "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o", str(report)),
                *(sys.executable, "-m", "tests.bench.journal", folder, str(transitions)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            return None
        calls = re.findall(r"\b(?:fsync|fdatasync)\(\d+<([^>]*)>", report.read_text(errors="replace"))
        return sum(not name.endswith("/bare") for name in calls)


if __name__ == "__main__":
    print(json.dumps(load(Path(sys.argv[1]), int(sys.argv[2]))))

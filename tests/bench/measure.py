"""Whole processes, measured from outside: wall clock, CPU and peak memory, medians of several runs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RUNS = 5


@dataclass(frozen=True)
class Sample:
    """Medians over the runs; `last_wall_s`, `output` and `errors` are the last run's."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    code: int
    output: str
    errors: str
    last_wall_s: float = 0.0


def process(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    runs: int = RUNS,
    warmups: int = 1,
) -> Sample:
    """Runs a command `runs` times after those that warm the file cache."""
    samples = [_once(argv, cwd, env) for _ in range(runs + warmups)][warmups:]
    last = samples[-1]
    return Sample(
        wall_s=statistics.median(s.wall_s for s in samples),
        cpu_s=statistics.median(s.cpu_s for s in samples),
        peak_mib=statistics.median(s.peak_mib for s in samples),
        code=last.code,
        output=last.output,
        errors=last.errors,
        last_wall_s=last.wall_s,
    )


# A child begins its life as large as its parent, and the kernel counts that; so a small process of its own
# starts the command, and reports its wall clock, CPU and peak memory.
LAUNCHER = """
import json, os, sys, time
begun = time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
wall = time.perf_counter() - begun
with open(sys.argv[1], "w") as report:
    json.dump([wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
               os.waitstatus_to_exitcode(status)], report)
"""


def _once(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None) -> Sample:
    with tempfile.TemporaryDirectory() as folder:
        out, err, report = (Path(folder) / name for name in ("out", "err", "report"))
        with out.open("wb") as out_file, err.open("wb") as err_file:
            subprocess.run(
                [sys.executable, "-S", "-E", "-c", LAUNCHER, str(report), *argv],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                check=True,
            )
        wall_s, cpu_s, peak_mib, code = json.loads(report.read_text())
        return Sample(
            wall_s=wall_s,
            cpu_s=cpu_s,
            peak_mib=peak_mib,
            code=code,
            output=out.read_bytes()[:1_000_000].decode(errors="replace"),
            errors=err.read_bytes().decode(errors="replace"),
        )

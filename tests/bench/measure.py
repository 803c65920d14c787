"""Whole processes, measured from outside: wall clock, CPU and peak memory, medians of several runs."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
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


def _once(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None) -> Sample:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.perf_counter()
        child = subprocess.Popen(
            argv, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Sample(
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_mib=usage.ru_maxrss / 1024,
            code=child.returncode,
            output=out.read(1_000_000).decode(errors="replace"),
            errors=err.read().decode(errors="replace"),
        )

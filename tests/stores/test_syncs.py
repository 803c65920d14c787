"""What a transition costs: one sync of the log, counted by the system itself, and little CPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

APPENDS = 200
PROGRAM = """
import resource, sys
from pathlib import Path
from tests.stores.test_sqlite import append, opened
from fleetctl.ledger.ports import Head
store = opened(Path(sys.argv[1]))
store.initialise()
head = append(store, Head())
sys.stderr.write("BEGIN\\n")
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(int(sys.argv[2])):
    head = append(store, head, size_b=400)
after = resource.getrusage(resource.RUSAGE_SELF)
sys.stderr.write("END\\n")
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""


def test_one_append_is_one_sync(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    command = [
        strace,
        "-f",
        "-o",
        str(trace),
        "-e",
        "trace=fsync,fdatasync,write",
        sys.executable,
        "-c",
        PROGRAM,
    ]
    done = subprocess.run(
        [*command, str(tmp_path / "s" / "state.db"), str(APPENDS)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("this system does not allow tracing")
    assert done.returncode == 0, done.stderr
    text = trace.read_text()
    inside = text[text.index('"BEGIN\\n"') : text.index('"END\\n"')]
    assert len(re.findall(r"\b(?:fsync|fdatasync)\(", inside)) == APPENDS


def test_an_append_costs_less_than_a_millisecond_of_cpu(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "s" / "state.db"), "1000"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 1.0

"""The benchmark measures what it says: small rounds of it, so that it does not rot between releases."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.bench import journal, large
from tests.bench.measure import process
from tests.bench.run import FLEETCTL
from tests.bench.table import Table


def test_the_large_installation_is_an_upgrade_of_every_node(tmp_path: Path) -> None:
    manifests, observed, state = large.write(tmp_path, fleets=2, nodes=100)
    command = [FLEETCTL, "plan", str(manifests), "--observed", str(observed), "--state", str(state)]
    done = process(command, env={"FLEETCTL_TIMINGS": "1", "NO_COLOR": "1"}, runs=1)
    assert done.code == 0, done.output + done.errors
    assert "Plan: 0 to add, 200 to change, 0 to destroy." in done.output
    assert "timings: load=" in done.errors
    assert done.peak_mib > 10


def test_one_sync_for_each_transition() -> None:
    """Checkpoints, leases and opening apart: a thousand more transitions are a thousand more syncs at most."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not there to count syncs")
    few, many = journal.syncs(30), journal.syncs(330)
    assert few is not None
    assert many is not None
    assert many - few <= 300


def test_the_journals_load_is_measured_beside_a_bare_file(tmp_path: Path) -> None:
    measured = journal.load(tmp_path, 30)
    assert set(measured) == {"cpu_ms", "wall_ms", "bare_ms", "entry_b"}
    assert all(value > 0 for value in measured.values())


def test_a_broken_promise_is_marked() -> None:
    table = Table()
    table.add("a", "1 s", kept=True)
    assert not table.broken
    table.add("b", "9 s", bound="1 s", kept=False)
    assert table.broken
    assert "BROKEN" in str(table)


def test_peak_memory_is_that_of_the_process_itself() -> None:
    small = process([sys.executable, "-c", "pass"], runs=1)
    large_ = process([sys.executable, "-c", "x = bytearray(100 * 2**20)"], runs=1)
    assert large_.peak_mib - small.peak_mib > 90

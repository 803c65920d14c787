"""The quickstart by hand, as its README writes it."""

from __future__ import annotations

from pathlib import Path

from tests.docs import run_page
from tests.docs.reader import Reader, follows
from tests.examples.copies import copy_example
from tests.examples.quickstart import FIRST_PORT, NODES, answering, free_ports


@follows("examples/quickstart/README.md")
def test_the_quickstart_runs_by_hand_as_written(reader: Reader, tmp_path: Path) -> None:
    first = free_ports(NODES)
    ports = {str(FIRST_PORT + n): str(first + n) for n in range(NODES)}
    reader.path = copy_example("quickstart", tmp_path, ports)
    try:
        reader.run("export PATH=")
        assert "Plan: 3 to add" in reader.run("fleetctl plan")
        reader.run("fleetctl apply", typed=["yes"])
        assert "3 x 1.0.0; 3 of 3 available" in reader.run("fleetctl status")
        reader.run("fleetctl apply . --var version=1.1.0", typed=["yes"])
        assert "no pair of hello goes from 1.1.0 to 2.0.0" in reader.run("fleetctl plan", code=3)
        assert "No changes" in reader.run("fleetctl apply . --var version=1.1.0")
        reader.run("fleetctl destroy", typed=["hello"])
        assert answering(first) == []
    finally:
        if answering(first):
            run_page.in_shell("fleetctl destroy . --auto-approve", reader, reader.timeout_s)

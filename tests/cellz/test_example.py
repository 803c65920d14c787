"""examples/cellz: fleetctl rolls three nodes while a writer and a reader go on; nothing acknowledged is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.cli import wait_for
from tests.cellz.load import Writer, check
from tests.cellz.running import Sse, cells, read_log
from tests.docs import run_page
from tests.docs.reader import Reader as PageReader
from tests.docs.reader import follows
from tests.examples.copies import copy_example
from tests.examples.quickstart import free_ports
from tests.lab.process import missing_programs

FIRST_PORT = 18480
DEADLINE_S = 120.0
STEP_TIMEOUT_S = 300.0


class Reader:
    """Follows a cell's stream from node to node by its last id, and keeps what it was given."""

    def __init__(self, cell: str, addresses: list[str]) -> None:
        self.seen: list[dict[str, Any]] = []
        self._cell = cell
        self._addresses = addresses
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            for address in self._addresses:
                self._follow(address)
            time.sleep(0.02)

    def _follow(self, address: str) -> None:
        last = self.seen[-1]["sequence"] if self.seen else 0
        try:
            with httpx.Client(base_url=address) as client:
                stream = Sse(client, cells(f"{self._cell}/stream?since={last}"))
                try:
                    for _, kind, data in stream:
                        assert kind == "note"
                        self.seen.append(data)
                        if self._ending.is_set():
                            return
                finally:
                    stream.close()
        except httpx.HTTPError:
            return

    def wait_for(self, sequence: int) -> None:
        """Wait until the reader has an event."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.seen or self.seen[-1]["sequence"] < sequence:
            assert time.monotonic() < deadline, f"the reader stopped at {len(self.seen)}"
            time.sleep(0.05)
        self._ending.set()


@pytest.mark.timeout(400)
@follows("examples/cellz/README.md")
def test_a_fleet_rolls_under_a_writer_and_a_reader(reader: PageReader, tmp_path: Path) -> None:
    """The README's commands, and beside its own event and stream those of three writers and their readers."""
    if reason := missing_programs("curl"):
        pytest.skip(reason)
    port = free_ports(3)
    reader.path = copy_example("cellz", tmp_path, {str(FIRST_PORT): str(port)})
    for number in range(2):
        reader.put(f":{FIRST_PORT + number}/", f":{port + number}/")
    reader.timeout_s = STEP_TIMEOUT_S
    nodes = [f"http://127.0.0.1:{port + number}" for number in range(3)]
    reader.run("export PATH=")
    destroy = f"{reader.left()[-1].line} --auto-approve"
    try:
        reader.run("fleetctl apply", typed=["yes"])
        assert versions(nodes) == {"1.0.0"}
        assert '"sequence":1' in reader.run("curl -s -H")
        stream = reader.start("curl -sN")
        writers = [Writer(f"cell-{number}", lambda: nodes).start() for number in range(3)]
        readers = [Reader(writer.cell, nodes) for writer in writers]
        for writer in writers:
            writer.wait_for(5, DEADLINE_S)
        wait_for(lambda: "event: note" in stream.said(), "the event in the stream")
        reader.run("fleetctl apply", typed=["yes"])
        assert versions(nodes) == {"1.1.0"}
        for writer in writers:
            writer.wait_for(5, DEADLINE_S)
            writer.stop()
        for writer, one in zip(writers, readers, strict=True):
            log = log_of(writer.cell, nodes)
            check(writer, log)
            one.wait_for(len(log))
            assert one.seen == log, "the reader was given something else than the log"
        assert [event["payload"] for event in log_of("demo", nodes)] == [1]
        reader.run("curl -s http")
        reader.run("fleetctl destroy", typed=["cells"])
    finally:
        run_page.in_shell(destroy, reader, STEP_TIMEOUT_S)


def versions(nodes: list[str]) -> set[str]:
    return {httpx.get(node + "/health", timeout=30).json()["version"] for node in nodes}


def log_of(cell: str, nodes: list[str]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for node in nodes:
            with httpx.Client(base_url=node, timeout=30) as client:
                if client.get(cells(cell)).status_code == 200:
                    return read_log(client, cell)
        time.sleep(0.05)
    raise AssertionError(f"no node has {cell}")

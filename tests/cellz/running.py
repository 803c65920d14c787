"""Real nodes: processes on loopback, started for a test and ended by their own pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

# Generous, because the machine may be busy; nothing here is a measurement.
START_DEADLINE_S = 60.0
END_DEADLINE_S = 60.0


class NodeProcess:
    """`cellz serve` as a child process; `settings` are variables without their CELLZ_ prefix, in lower case."""

    def __init__(self, folder: Path, name: str = "node", **settings: object) -> None:
        self.folder = folder
        self.name = name
        self.settings: dict[str, object] = {
            "host": "127.0.0.1",
            "port": 0,
            "data_dir": folder / name,
            "storage_dir": folder / "storage",
            **settings,
        }
        self.log_path = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> NodeProcess:
        """Start and wait until it serves; raises AssertionError with its log if it does not."""
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("CELLZ_", "AWS_"))
        }
        environment |= {f"CELLZ_{key.upper()}": str(value) for key, value in self.settings.items()}
        begin = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fleetctl.cellz.cli", "serve"],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline:
            for line in self.log(begin):
                if line.get("message") == "serving":
                    self.address = str(line["address"])
                    self._await_answer(deadline)
                    return self
            assert self.process.poll() is None, self.log_path.read_text()
            time.sleep(0.02)
        raise AssertionError(self.log_path.read_text())

    def _await_answer(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            try:
                if httpx.get(self.address + "/health", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.02)
        raise AssertionError(self.log_path.read_text())

    def log(self, begin: int = 0) -> list[dict[str, Any]]:
        """Return the log's JSON lines from byte `begin`."""
        found = []
        for line in self.log_path.read_bytes()[begin:].decode(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash does, and reap it."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        return self.process.wait(END_DEADLINE_S)

    def terminate(self) -> int:
        """End it in order and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def client(self) -> httpx.Client:
        """Return a client of this node."""
        return httpx.Client(base_url=self.address, timeout=60)


@contextmanager
def running(folder: Path, name: str = "node", **settings: object) -> Iterator[NodeProcess]:
    """A node for the time of the block."""
    node = NodeProcess(folder, name, **settings)
    try:
        yield node.start()
    finally:
        if node.process is not None:
            node.kill()


def cells(path: str = "") -> str:
    """Return the path of a route below /api/v1/cells."""
    return "/api/v1/cells" + (f"/{path}" if path else "")


def append(client: httpx.Client, cell: str, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Append `count` events and return their records."""
    made = []
    for number in range(count):
        body = {"event_type": "note", "payload": {"n": number}, **fields}
        answer = client.post(cells(f"{cell}/events"), json=body)
        # On a machine too busy to renew a short lease in time, a node fences itself: not done, asked again.
        for _ in range(200):
            if answer.status_code != 503 or answer.json()["code"] not in ("cellz.fenced", "cellz.not_open"):
                break
            time.sleep(0.1)
            answer = client.post(cells(f"{cell}/events"), json=body)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["event"])
    return made


def append_many(client: httpx.Client, cell: str, count: int) -> None:
    """Append `count` events in batches of 500."""
    for start in range(0, count, 500):
        batch = [{"event_type": "note", "payload": {"n": start + n}} for n in range(min(500, count - start))]
        answer = client.post(cells(f"{cell}/events/batch"), json={"events": batch})
        assert answer.status_code == 201, answer.text


def read_log(client: httpx.Client, cell: str, **query: Any) -> list[dict[str, Any]]:
    """Return every event of a cell, in pages."""
    found: list[dict[str, Any]] = []
    while True:
        since = found[-1]["sequence"] if found else query.get("since", 0)
        answer = client.get(cells(f"{cell}/events"), params={**query, "since": since, "limit": 500})
        assert answer.status_code == 200, answer.text
        page = answer.json()["events"]
        if not page:
            return found
        found += page


class Sse:
    """Server-sent events of one stream; iterate it for (id, event, data)."""

    def __init__(self, client: httpx.Client, path: str, **options: Any) -> None:
        self._context = client.stream("GET", path, timeout=httpx.Timeout(60, read=60), **options)
        self.response = self._context.__enter__()
        self._lines = self.response.iter_lines() if self.response.status_code == 200 else iter(())

    def __iter__(self) -> Iterator[tuple[str, str, Any]]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            elif "data" in fields:
                yield fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"])
                fields = {}

    def take(self, count: int) -> list[tuple[str, str, Any]]:
        """Return the next `count` events."""
        found = []
        for item in self:
            found.append(item)
            if len(found) == count:
                break
        return found

    def close(self) -> None:
        """Leave the stream."""
        self._context.__exit__(None, None, None)

"""`python -m tests.cellz.bench`: the daemon's speed, beside the original's where CELLZ_PEER names its program.

Both run with the same durability: WAL, synchronous NORMAL, no fsync a commit, snapshots at eviction only
(`CELLZ_SYNC=evict`); our other modes stand below as themselves. Both run at once and are measured in turns; a row
is a daemon's median turn, and a ratio the median of the turns' ratios. The daemon under test has one processor of
its own, and the load generator, a process of its own, has the others (`cores.py`). "All processors" is without
that: daemon and generator share them, and a daemon of many threads uses what the generator leaves.

Name parts to run only those: appends fan activation memory modes floor s3 takeover.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.cellz import cores
from tests.cellz.running import NodeProcess, append_many, cells
from tests.lab.process import free_port

SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
RESIDENT = int(os.environ.get("BENCH_RESIDENT", "5000"))
READERS = int(os.environ.get("BENCH_READERS", "1000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "20"))
S3_DISTANCE_S = 0.01
TURNS = int(os.environ.get("BENCH_TURNS", "5"))


@dataclass
class Server:
    """A running daemon: where it listens and its process."""

    name: str
    address: str
    pid: int

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        line = next(
            each for each in Path(f"/proc/{self.pid}/status").read_text().splitlines() if "VmRSS" in each
        )
        return int(line.split()[1]) * 1024


def placed(server: Server) -> Server:
    """Put a daemon on its processor."""
    cores.prefer(server.pid)
    cores.pin(server.pid, cores.SERVER)
    return server


@contextmanager
def ours(**settings: object) -> Iterator[Server]:
    """Our daemon in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="cellz-bench-") as folder:
        node = NodeProcess(Path(folder), "ours", **{"sync": "evict", "idle_timeout": 0, **settings}).start()
        try:
            yield placed(Server("ours", node.address, node.pid))
        finally:
            node.kill()


@contextmanager
def original() -> Iterator[Server]:
    """The Rust cellz."""
    with tempfile.TemporaryDirectory(prefix="cellz-bench-") as folder:
        port = free_port()
        environment = {
            "CELLZ_HOST": "127.0.0.1",
            "CELLZ_PORT": str(port),
            "CELLZ_DATA_DIR": folder + "/data",
            "CELLZ_STORAGE_DIR": folder + "/storage",
            "RUST_LOG": "warn",
        }
        process = subprocess.Popen(
            [os.environ["CELLZ_PEER"]],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # as ours: a share of the processors of its own
        )
        address = f"http://127.0.0.1:{port}"
        try:
            while True:
                try:
                    httpx.get(address + "/health", timeout=5)
                    break
                except httpx.HTTPError:
                    time.sleep(0.05)
            yield placed(Server("cellz 0.2.1", address, process.pid))
        finally:
            process.kill()
            process.wait()


@contextmanager
def side_by_side() -> Iterator[list[Server]]:
    """Ours and, where it is, the original, at once; they are measured in turns, so that noise meets both."""
    with ours() as own:
        if not os.environ.get("CELLZ_PEER"):
            yield [own]
            return
        with original() as peer:
            yield [own, peer]


def say(*columns: object) -> None:
    """Print one row, with the machine's load behind it."""
    row = "  ".join(str(each).ljust(width) for each, width in zip(columns, (47, 14, 74), strict=False))
    print(f"{row}  load {os.getloadavg()[0]:.1f}", flush=True)


def drive(server: Server, connections: int, batch: int, prefix: str) -> dict[str, float]:
    """Run the load generator; return its numbers, events a second, and CPU microseconds a request."""
    before = server.cpu_s()
    command = [sys.executable, "-m", "tests.cellz.loadgen", "127.0.0.1", str(server.port), str(connections)]
    done = subprocess.run(
        [*command, str(SECONDS), str(batch), prefix],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS * 10 + 60,
    )
    found: dict[str, float] = json.loads(done.stdout)
    assert not found["bad"], found
    found["rate"] = found["requests"] / found["seconds"] * (batch or 1)
    found["cpu_us"] = (server.cpu_s() - before) / found["requests"] * 1e6
    return found


SINGLE = (64, 0, "single appends, 64 connections, 64 cells")
BATCH = (8, 100, "batch appends, 100 events a call, 8 cells")


def appends(servers: list[Server], kind: tuple[int, int, str], label: str = "") -> None:
    """Measure appends in turns; print each server's median turn and the median ratio."""
    connections, batch, what = kind
    turns: dict[str, list[dict[str, float]]] = {server.name: [] for server in servers}
    for number in range(TURNS + 1):
        for server in servers:
            found = drive(server, connections, batch, "b" if batch else "s")
            if number:  # the first turn brings the cells up
                turns[server.name].append(found)
    for server in servers:
        middle = sorted(turns[server.name], key=lambda each: each["rate"])[TURNS // 2]
        p99s = sorted(each["p99_ms"] for each in turns[server.name])
        times = f"p50 {middle['p50_ms']:.1f} ms, p99 {p99s[TURNS // 2]:.1f} ms"
        cpu = f"CPU {middle['cpu_us']:.0f} + {middle['generator_cpu_us']:.0f} us a call"
        unit = "events/s" if batch else "/s"
        say(what, label or server.name, f"{middle['rate']:,.0f} {unit}, {times}, {cpu}")
    if len(servers) == 2:
        own, peer = (turns[server.name] for server in servers)
        ratios = sorted(mine["rate"] / other["rate"] for mine, other in zip(own, peer, strict=True))
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        say(what, "ratio", f"{ratios[TURNS // 2]:.2f} ({each})")


def activation(server: Server) -> None:
    """Measure the first request to an evicted cell of 10,000 events."""
    took = []
    with httpx.Client(base_url=server.address, timeout=60) as client:
        append_many(client, "cold", 10_000)
        for _ in range(ROUNDS):
            assert client.post(cells("cold/evict")).status_code == 200
            began = time.perf_counter()
            assert client.get(cells("cold")).status_code == 200
            took.append((time.perf_counter() - began) * 1000)
    took.sort()
    say(
        "activation, cold cell of 10,000 events, local",
        server.name,
        f"p50 {statistics.median(took):.1f} ms, most {took[-1]:.1f} ms, HTTP included",
    )


def residents(server: Server) -> None:
    """Measure memory of many resident cells of which a random tenth is used again."""
    before = server.memory_bytes()
    chance = random.Random(1)
    body = {"event_type": "note", "payload": {"n": 1}}
    with httpx.Client(base_url=server.address, timeout=60) as client:
        for number in range(RESIDENT):
            assert client.post(cells(f"r{number}/events"), json=body).status_code == 201
        for number in chance.sample(range(RESIDENT), RESIDENT // 10):
            assert client.post(cells(f"r{number}/events"), json=body).status_code == 201
    time.sleep(3)
    each = (server.memory_bytes() - before) / RESIDENT
    say(
        f"memory a cell, {RESIDENT:,} resident",
        server.name,
        f"{each / 1024:.1f} KiB (whole process {server.memory_bytes() / 2**20:.0f} MiB)",
    )


def fan_out(servers: list[Server]) -> None:
    """Measure, in turns, an append to its last delivery to many readers of one cell; print the median turns."""
    turns: dict[str, list[dict[str, float]]] = {server.name: [] for server in servers}
    for _ in range(TURNS):
        for server in servers:
            command = [sys.executable, "-m", "tests.cellz.readers", "127.0.0.1", str(server.port), "fan"]
            done = subprocess.run(
                [*command, str(READERS), str(ROUNDS * 5)],
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            )
            turns[server.name].append(json.loads(done.stdout))
    for server in servers:
        p50, p99 = (
            statistics.median(each[name] for each in turns[server.name]) for name in ("p50_ms", "p99_ms")
        )
        say(
            f"{READERS:,} stream readers, append to last delivery",
            server.name,
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
        )


def floor() -> None:
    """Measure the same SQLite statements in a bare loop."""
    from fleetctl.cellz.apply import transact
    from fleetctl.cellz.clock import Clock, Ids
    from fleetctl.cellz.database import CellDb
    from fleetctl.cellz.ops import Append, Create
    from fleetctl.cellz.words import NewEvent

    clock, ids = Clock(), Ids()
    payload = json.dumps({"a": "x" * 100})
    with tempfile.TemporaryDirectory() as folder:
        db = CellDb("floor", Path(folder) / "floor.db")
        transact(db, [Create("floor", "{}", clock.stamp())])
        plain = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        for line in ("PRAGMA page_size = 2048", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL"):
            plain.execute(line)
        for (sql,) in db.conn.execute(
            "SELECT sql FROM sqlite_schema WHERE sql NOT NULL AND name IN ('cell_meta', 'events')"
        ).fetchall():
            plain.execute(sql)
        plain.execute("INSERT INTO cell_meta VALUES ('floor', 'f', 'active', 0, '', '', '{}')")
        for count in (1, 100):
            repeats = 3000 // count
            began = time.perf_counter()
            for number in range(repeats):
                start = number * count + (10_000 * count)
                at = clock.stamp()
                rows = [(start + n, ids.event_id(), None, "tool_call", payload, at) for n in range(count)]
                plain.execute("BEGIN IMMEDIATE")
                plain.execute(
                    "UPDATE cell_meta SET event_sequence = ?, updated_at = ? WHERE id = 'floor'",
                    (start + count, at),
                )
                plain.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)
                plain.execute("COMMIT")
            bare = (time.perf_counter() - began) / repeats / count * 1e6
            began = time.perf_counter()
            for _ in range(repeats):
                at = clock.stamp()
                transact(
                    db,
                    [
                        Append(
                            tuple(
                                NewEvent(ids.event_id(), None, "tool_call", payload, at) for _ in range(count)
                            )
                        )
                    ],
                )
            own = (time.perf_counter() - began) / repeats / count * 1e6
            say(
                f"floor: the statements alone, {count} a transaction",
                "bare loop",
                f"{bare:.1f} us an event ({1e6 / bare:,.0f} /s); through our write path {own:.1f} us",
            )


def takeover() -> None:
    """Measure a peer's first request after a kill to its answer, and the same after SIGTERM."""
    ttl = 2.0
    with tempfile.TemporaryDirectory(prefix="cellz-bench-") as folder:
        nodes = [NodeProcess(Path(folder), f"n{n}", sync="commit", lease_ttl=ttl).start() for n in range(2)]
        try:
            for label, number in (("kill -9", signal.SIGKILL), ("SIGTERM", signal.SIGTERM)):
                took = sorted(_takeover(nodes, number) for _ in range(ROUNDS))
                p95 = took[int(len(took) * 0.95) - 1]
                beyond = f" = TTL {ttl:g} s + {p95 - ttl:.2f} s" if number == signal.SIGKILL else ""
                say(
                    f"takeover after {label}, from the first request",
                    "ours",
                    f"p50 {statistics.median(took):.2f} s, p95 {p95:.2f} s{beyond}",
                )
        finally:
            for node in nodes:
                node.kill()


def _takeover(nodes: list[NodeProcess], number: signal.Signals) -> float:
    first, second = nodes
    body = {"event_type": "note", "payload": None}
    with httpx.Client(timeout=60) as client:
        while client.post(first.address + cells("t/events"), json=body).status_code != 201:
            time.sleep(0.05)
        first.signal(number)
        if number == signal.SIGKILL:
            first.wait()
        began = time.perf_counter()
        while client.post(second.address + cells("t/events"), json=body).status_code != 201:
            time.sleep(0.02)
        took = time.perf_counter() - began
    first.wait()
    first.start()
    nodes.reverse()
    return took


@contextmanager
def slower(seconds: float) -> Iterator[None]:
    """Have moto wait before each answer, as a store at some distance does."""
    from moto.server import DomainDispatcherApplication

    answer = DomainDispatcherApplication.__call__

    def late(self: object, *call: object) -> object:
        time.sleep(seconds)
        return answer(self, *call)

    DomainDispatcherApplication.__call__ = late
    try:
        yield
    finally:
        DomainDispatcherApplication.__call__ = answer


def from_s3() -> None:
    """Measure the activation from S3 as it is here, and (moto's) at some distance, where round trips count."""
    from tests.lab.s3 import missing, real

    if real():
        _from_s3("activation, the same from S3 (LAB_S3_ENDPOINT)", "bench")
        return
    if missing():
        return
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    _from_s3("activation, the same from S3 (moto)", "bench")
    with slower(S3_DISTANCE_S):
        _from_s3(f"the same, each call {S3_DISTANCE_S * 1000:.0f} ms longer", "bench-far")


def _from_s3(what: str, bucket: str) -> None:
    """Measure the activation of a cold cell of 10,000 events from S3, beside the bare fetch."""
    from tests.lab.s3 import s3_server

    with s3_server() as server:
        keys = {
            "s3_endpoint": server.endpoint,
            "s3_bucket": server.bucket(bucket),
            "s3_region": server.region,
        }
        keys |= {"s3_access_key_id": server.access_key, "s3_secret_access_key": server.secret_key}
        fetches: list[float] = []
        took: list[float] = []
        with ours(**keys) as node, httpx.Client(base_url=node.address, timeout=60) as client:
            append_many(client, "cold", 10_000)
            folder = Path(f"/proc/{node.pid}/cwd").resolve()
            for _ in range(ROUNDS):
                assert client.post(cells("cold/evict")).status_code == 200
                for path in (folder / "ours").glob("cold.db*"):
                    path.unlink()
                s3 = server.client()
                began = time.perf_counter()
                s3.get_object(Bucket=bucket, Key="cells/cold.db")["Body"].read()
                fetches.append((time.perf_counter() - began) * 1000)
                began = time.perf_counter()
                assert client.get(cells("cold")).status_code == 200
                took.append((time.perf_counter() - began) * 1000)
    say(
        what,
        "ours",
        f"p50 {statistics.median(took):.1f} ms; one fetch of its file {statistics.median(fetches):.1f} ms",
    )


def compared(parts: set[str]) -> None:
    """Print what is measured beside the original."""
    with side_by_side() as both:
        if "appends" in parts:
            appends(both, SINGLE)
            appends(both, BATCH)
        for server in both:
            if "activation" in parts:
                activation(server)
        if "fan" in parts:
            fan_out(both)
        if "appends" in parts:
            for server in both:
                cores.pin(server.pid, cores.ALL)
            os.sched_setaffinity(0, cores.ALL)
            appends(both, (*SINGLE[:2], "single appends, all processors"))
            appends(both, (*BATCH[:2], "batch appends, all processors"))
            os.sched_setaffinity(0, cores.GENERATOR)


PARTS = ("appends", "fan", "activation", "memory", "modes", "floor", "s3", "takeover")


def main() -> None:
    """Print the table, or the parts of it that are named."""
    parts = set(sys.argv[1:] or PARTS)
    assert parts <= set(PARTS), f"parts are: {' '.join(PARTS)}"
    print(__doc__)
    if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
        os.setsid()
    raised = cores.prefer(os.getpid())
    os.sched_setaffinity(0, cores.GENERATOR)
    print(f"{len(cores.ALL)} processors; priority {'raised' if raised else 'as it is'} for all of them\n")
    say("what", "who", "how much")
    if parts & {"appends", "activation", "fan"}:
        compared(parts)
    if "memory" in parts:
        with side_by_side() as both:
            for server in both:
                residents(server)
    if "modes" in parts:
        for mode in ("interval:1s", "commit"):
            with ours(sync=mode) as server:
                for kind in (SINGLE, BATCH):
                    appends([server], kind, f"ours, {mode}")
    for part, measure in (("floor", floor), ("s3", from_s3), ("takeover", takeover)):
        if part in parts:
            measure()


if __name__ == "__main__":
    main()

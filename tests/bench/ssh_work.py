"""One contestant of the SSH benchmark, as a process of its own: `python -m tests.bench.ssh_work WHO JOB.json`.

fleetctl   our transport: put, then run, on every host
raw        paramiko doing exactly the same by hand: one connection, TCP_NODELAY, temporary file, hash, fsync, rename
observe    our host driver's observation of every host: one exec
connect    raw connect and one exec of the same script
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import paramiko

Job = dict[str, Any]


def _hosts(job: Job) -> list[tuple[str, int]]:
    return [(address, port) for address, port in job["hosts"]]


def _everywhere(job: Job, work: Callable[[tuple[str, int]], None]) -> None:
    with ThreadPoolExecutor(job["threads"]) as pool:
        for future in [pool.submit(work, host) for host in _hosts(job)]:
            future.result()


def fleetctl(job: Job) -> None:
    from executors.command import Command

    data = Path(job["file"]).read_bytes()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    settings = _settings()

    def work(host: tuple[str, int]) -> None:
        transport = _transport(job, host, settings)
        transport.put(io.BytesIO(data), len(data), digest, _target(job, host))
        assert transport.run(Command(("/bin/sh", "-c", job["command"]))).ok
        transport.close()

    _everywhere(job, work)


def observe(job: Job) -> None:
    from executors.host.driver import HostReader

    settings = _settings()

    def work(host: tuple[str, int]) -> None:
        reader = HostReader("h", _transport(job, host, settings), f"{job['root']}/{host[0]}")
        seen = reader.observe(frozenset())
        assert seen.reachable, seen.error
        assert len(seen.nodes) == job["nodes"], len(seen.nodes)
        reader.close()

    _everywhere(job, work)


def prepare(job: Job) -> None:
    """Places `nodes` nodes on every host, for the observation to find."""
    from executors.driver import Operation
    from executors.host.driver import HostDriver
    from executors.outcome import OutcomeState
    from planner.plan import StepKind
    from planner.spec import ArtifactPin, NodeSpec, fields

    settings = _settings()

    def work(host: tuple[str, int]) -> None:
        driver = HostDriver("h", _transport(job, host, settings), f"{job['root']}/{host[0]}")
        for number in range(job["nodes"]):
            spec = NodeSpec(
                address="127.0.0.1", host="h", port=9000 + number, product="p", version="1.0.0", substrate="host",
                artifact=ArtifactPin(digest="sha256:" + "0" * 64, name="a", source="/a"),
                command=("/bin/true",), env={"NAME": f"node-{number}"},
            )  # fmt: skip
            operation = Operation(
                operation_id=f"op-{number}", attempt=1, fleet="f", lineage="l", epoch=1, node=f"n-{number}",
                uid=f"uid{number:013d}", generation=1, effect=StepKind.CREATE, spec=spec, fields=fields(spec, {}),
            )  # fmt: skip
            outcome = driver.perform(operation, {})
            assert outcome.state is OutcomeState.SUCCEEDED, outcome
        driver.close()

    _everywhere(job, work)


def _settings() -> Any:
    from executors.clock import SystemClock
    from executors.transports.ssh.transport import SshSettings

    return SshSettings(SystemClock(), _no_secret)


def _no_secret(ref: str) -> Any:
    raise KeyError(ref)


def _transport(job: Job, host: tuple[str, int], settings: Any) -> Any:
    from executors.transports.ssh.transport import SshTransport
    from manifests.schema.host import Host, Ssh

    ssh = Ssh(
        address=host[0], port=host[1], user=job["user"], identity_file=job["key"],
        known_hosts=job["known_hosts"], config_file="/dev/null", connect_timeout="60s",
    )  # fmt: skip
    return SshTransport(Host(api_version="fleetctl/v1", kind="Host", name="h", ssh=ssh), settings)


# What our upload does, by hand.
_PUT = (
    'set -e; t="$1.part"; mkdir -p "${1%/*}"; cat > "$t"; '
    '[ "$(sha256sum < "$t" | cut -c1-64)" = "$2" ]; chmod 0644 "$t"; sync "$t"; mv -f "$t" "$1"; sync "${1%/*}"'
)


def raw(job: Job) -> None:
    data = Path(job["file"]).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    connect = _raw_connect(job)

    def work(host: tuple[str, int]) -> None:
        transport = connect(host)
        _raw_run(transport, shlex.join(["/bin/sh", "-c", _PUT, "sh", _target(job, host), digest]), data)
        _raw_run(transport, shlex.join(["/bin/sh", "-c", job["command"]]), b"")
        transport.close()

    _everywhere(job, work)


def connect(job: Job) -> None:
    """Runs the very script that an observation runs, and throws its answer away."""
    from executors.host.commands import observe as command
    from executors.host.layout import Layout

    open_ = _raw_connect(job)

    def work(host: tuple[str, int]) -> None:
        transport = open_(host)
        asked = command(Layout(f"{job['root']}/{host[0]}"))
        assert _raw_run(transport, shlex.join(asked.argv), asked.stdin)
        transport.close()

    _everywhere(job, work)


def _raw_connect(job: Job) -> Callable[[tuple[str, int]], paramiko.Transport]:
    key = paramiko.PKey.from_path(job["key"])

    def open_(host: tuple[str, int]) -> paramiko.Transport:
        sock = socket.create_connection(host, timeout=60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(sock)
        transport.banner_timeout = 60
        transport.start_client(timeout=60)
        transport.auth_publickey(job["user"], key)
        return transport

    return open_


def _raw_run(transport: paramiko.Transport, line: str, data: bytes) -> bytes:
    channel = transport.open_session()
    channel.exec_command(line)
    channel.sendall(data)
    channel.shutdown_write()
    out = b""
    while chunk := channel.recv(65536):
        out += chunk
    assert channel.recv_exit_status() == 0, (line, out)
    channel.close()
    return out


def _target(job: Job, host: tuple[str, int]) -> str:
    return f"{job['root']}/{host[0]}/bench/{job['run']}/file"


if __name__ == "__main__":
    who, path = sys.argv[1:]
    loaded = json.loads(Path(path).read_text())
    {"fleetctl": fleetctl, "raw": raw, "observe": observe, "connect": connect, "prepare": prepare}[who](
        loaded
    )

"""A workspace with manifests, artifacts and a state, and the real `fleetctl` run in it as a subprocess.

Whatever a test starts is ended with it: nodes are found by the workspace's path in their command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance import program

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
# Generous: a loaded machine must not fail a test, and a hang must not stop the suite.
RUN_TIMEOUT_S = 90.0
# Below the ephemeral range, so that no outgoing connection takes a port between the look and the use.
PORT_FIRST, PORT_LAST = 20_000, 32_000


@dataclass(frozen=True)
class Result:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on."""
    start = PORT_FIRST + (os.getpid() * 101 + time.monotonic_ns() // 1000 * 7) % (
        PORT_LAST - PORT_FIRST - count
    )
    for first in [*range(start, PORT_LAST - count), *range(PORT_FIRST, start)]:
        if all(_is_free(first + n) for n in range(count)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
    """The first true value of `condition`; fails with `what` when it does not come."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what}"
        time.sleep(0.02)


@dataclass
class Workspace:
    """A folder with a fleet of `count` nodes of the product `hello` on this machine."""

    path: Path
    count: int = 3
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.port = free_ports(self.count + 2)
        self.started: list[subprocess.Popen[str]] = []
        self.pairs = ['{from: "1.0.0", to: "1.1.0", mode: rolling, reverse: rolling}']
        self.releases: dict[str, str] = {}
        for version in ("1.0.0", "1.1.0", "2.0.0"):
            self.release(version)

    # Manifests

    def release(self, version: str, behaviour: str = "good", name: str | None = None) -> None:
        """Writes an artifact and its Release."""
        name = name or f"hello-{version}.py"
        pin = program.write(self.path / "artifacts" / name, version, behaviour)
        self.releases[version] = (
            "api_version: fleetctl/v1\nkind: Release\nproduct: hello\n"
            f'version: "{version}"\nartifacts:\n'
            f'  - {{substrate: host, arch: any, source: ./artifacts/{name}, digest: "{pin}"}}\n'
        )
        self.write_releases()

    def write_releases(self) -> None:
        pairs = "\n".join(f"  - {p}" for p in self.pairs)
        compatibility = (
            f"api_version: fleetctl/v1\nkind: Compatibility\nproduct: hello\npairs:\n{pairs}\n"
            if self.pairs
            else ""
        )
        host = "api_version: fleetctl/v1\nkind: Host\nname: localhost\nroot: ./host\n"
        parts = [*self.releases.values(), host, *([compatibility] if compatibility else [])]
        self.write("releases.yaml", "---\n".join(parts))

    def fleet(
        self,
        version: str = "1.0.0",
        *,
        count: int | None = None,
        max_unavailable: int | str = 1,
        reserve: int = 1,
        env: str = "{GREETING: hello}",
        deadline: str = "15s",
        min_ready: str = "0s",
        rollout: str = "",
        group: str = "",
        name: str = "hello",
    ) -> None:
        """Writes fleet.yaml."""
        self.write(
            "fleet.yaml",
            f"""api_version: fleetctl/v1
kind: Fleet
name: {name}
trust_domain: hello.internal
release: {{product: hello, version: "{version}"}}
groups:
  - name: web
    count: {self.count if count is None else count}
    substrate: host
    port: {self.port}
    process:
      command: [{sys.executable}, "{{{{ artifact.path }}}}", "{{{{ node.port }}}}"]
      env: {env}
    health: {{http: {{path: /health}}, interval: 100ms, success: 2, deadline: {deadline}, min_ready: {min_ready}}}
    data: {{path: data, retain: true}}
{group}rollout:
  max_unavailable: {max_unavailable}
  reserve: {reserve}
  drain: {{signal: TERM, timeout: 3s}}
{rollout}""",
        )

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text, encoding="utf-8")
        return path

    # The command

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        # Where the tests run must not show in what the command says.
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("FLEETCTL_", "PYTEST_")) and k != "CI"
        }
        return {**kept, "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **self.env, **(env or {})}

    def run(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
        timeout_s: float = RUN_TIMEOUT_S,
    ) -> Result:
        """Runs fleetctl to its end; `prefix` stands before the command."""
        done = subprocess.run(
            [*prefix, FLEETCTL, *args],
            cwd=cwd or self.path,
            env=self.environment(env),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, **kwargs: Any) -> Result:
        """Runs fleetctl, which must exit 0."""
        result = self.run(*args, **kwargs)
        assert result.code == 0, str(result)
        return result

    def apply(self, *args: str, **kwargs: Any) -> Result:
        """`apply . --auto-approve`, which must exit 0."""
        return self.ok("apply", ".", "--auto-approve", *args, **kwargs)

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts fleetctl in a process group of its own, its outputs going to files `N.out` and `N.err`."""
        number = len(self.started)
        with (
            (self.path / f"{number}.out").open("w") as out,
            (self.path / f"{number}.err").open("w") as err,
        ):
            process = subprocess.Popen(
                [FLEETCTL, *args],
                cwd=self.path,
                env=self.environment(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def said(self, number: int = -1) -> str:
        """What the numbered `start` has written so far, stderr after stdout."""
        number = number % len(self.started)
        return (self.path / f"{number}.out").read_text() + (self.path / f"{number}.err").read_text()

    def end(self, process: subprocess.Popen[str], timeout_s: float = RUN_TIMEOUT_S) -> Result:
        """Waits for a started fleetctl."""
        number = self.started.index(process)
        code = process.wait(timeout_s)
        return Result(
            code, (self.path / f"{number}.out").read_text(), (self.path / f"{number}.err").read_text()
        )

    # What is there

    @property
    def ports(self) -> list[int]:
        return [self.port + n for n in range(self.count)]

    def node_processes(self) -> list[int]:
        """The pids of this workspace's nodes, as the kernel knows them."""
        found = []
        needle = str(self.path).encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                line = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and needle in line and b"fleetctl" not in line.split(b"\0")[1:2]:
                found.append(int(entry.name))
        return [pid for pid in found if pid not in {p.pid for p in self.started}]

    def close(self) -> None:
        """Ends every process of this workspace."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(10)
        for _ in range(20):
            left = self.node_processes()
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        raise AssertionError(f"still running: {self.node_processes()}")

"""A private Docker engine: own data, own socket, own bridge; started here, and stopped with its containers.

The engine runs with `--iptables=false`: published ports are served by its user-space proxy, containers of one
network reach each other over the bridge, and no rule of the machine is touched, so that several engines (and the
machine's own) run side by side.
"""

from __future__ import annotations

import json
import os
import subprocess
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.certificates import make_authority
from tests.lab.network import Slot, take_slot
from tests.lab.process import (
    Daemon,
    LabError,
    find,
    free_port,
    missing_programs,
    missing_root,
    run,
)
from tests.lab.workdir import make_work_directory, remove_work_directory

START_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 120.0
DATA_BYTES_MAX = 3 * 1024**3
"""Far more than images and containers of a test run take (a host's tree is 150 MB, shared by all hosts)."""


def missing() -> str | None:
    """Why no engine can be had here, in one line, or None."""
    return (
        missing_programs("dockerd", "docker", "containerd", "runc", "ip", "setpriv", "openssl")
        or missing_root()
    )


class DockerEngine:
    """One `dockerd`; use as a context manager, or `start()` and `stop()`."""

    def __init__(self, *, tls: bool = False, insecure_registries: Sequence[str] = ()) -> None:
        """Describe an engine; nothing runs before `start()`.

        Args:
            tls: also listen on 127.0.0.1 with TLS, client certificates required.
            insecure_registries: `host:port` of registries spoken to without TLS (127.0.0.0/8 always is).
        """
        self._tls = tls
        self._insecure = tuple(insecure_registries)
        self._daemon: Daemon | None = None
        self._slot: Slot | None = None
        self._directory: Path | None = None
        self.tcp_port = 0
        self.client_certificates = Path()
        self.start_took_s = 0.0

    @property
    def directory(self) -> Path:
        """Private directory of the engine, gone after `stop()`."""
        if self._directory is None:
            raise LabError("this engine is not started")
        return self._directory

    @property
    def slot(self) -> Slot:
        """The engine's network."""
        if self._slot is None:
            raise LabError("this engine is not started")
        return self._slot

    @property
    def socket(self) -> Path:
        """Path of the unix socket."""
        return self.directory / "docker.sock"

    @property
    def url(self) -> str:
        """`unix://…` URL of the engine."""
        return f"unix://{self.socket}"

    @property
    def tcp_url(self) -> str:
        """`tcp://127.0.0.1:PORT` of an engine started with `tls`; see `client_certificates`."""
        if not self.tcp_port:
            raise LabError("this engine was started without tls")
        return f"tcp://127.0.0.1:{self.tcp_port}"

    @property
    def pid(self) -> int:
        """Pid of dockerd."""
        if self._daemon is None:
            raise LabError("this engine is not running")
        return self._daemon.pid

    def start(self) -> DockerEngine:
        """Start the engine and wait until it answers; everything is taken back when that fails."""
        if self._directory is None:
            self._directory = make_work_directory("dockerd", mode=0o711)
            _keep_data_in_memory(self._directory / "data")
        try:
            if self._slot is None:
                self._slot = take_slot()
            if self._tls and not self.tcp_port:
                self._make_certificates()
            self._daemon = Daemon(self._argv(), log=self.directory / "log")
            self.start_took_s = self._daemon.wait_ready(self.is_up, timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        return self

    def is_up(self) -> bool:
        """True when the engine answers over its socket."""
        if not self.socket.exists():
            return False
        return self.docker("version", "--format", "{{.Server.Version}}", check=False).returncode == 0

    def halt(self) -> None:
        """Stop the daemon and its containers, keeping data and network: `start()` brings the same engine back."""
        if self._daemon is not None:
            self._daemon.stop(timeout_s=60.0)
            self._daemon = None

    def stop(self) -> None:
        """Remove all containers, stop the daemon by its pid, and remove its data and network. Twice is harmless."""
        try:
            if self._daemon is not None and self._daemon.running():
                self._remove_everything()
        finally:
            self.halt()
            if self._slot is not None:
                self._slot.close()
                self._slot = None
            if self._directory is not None:
                remove_work_directory(self._directory)
                self._directory = None

    def docker(
        self,
        *words: str,
        input_bytes: bytes | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the docker client against this engine, with a configuration of its own."""
        argv = [find("docker") or "docker", "--host", self.url, *words]
        env = {"DOCKER_CONFIG": str(self.directory / "client"), "DOCKER_CONTEXT": "", "DOCKER_TLS_VERIFY": ""}
        return run(argv, input_bytes=input_bytes, env=env, timeout_s=timeout_s, check=check)

    def out(self, *words: str) -> str:
        """Standard output of a docker command that must succeed, stripped."""
        return self.docker(*words).stdout.decode().strip()

    def inspect(self, name: str) -> dict[str, Any]:
        """What the engine says of a container, image or network."""
        found: list[dict[str, Any]] = json.loads(self.out("inspect", name))
        return found[0]

    def address(self, container: str) -> str:
        """Address of a container on its first network, reachable from the machine."""
        networks = self.inspect(container)["NetworkSettings"]["Networks"]
        return str(next(iter(networks.values()))["IPAddress"])

    def allow_user(self, uid: int) -> None:
        """Let an unprivileged user of the machine speak to the socket (for engines reached through SSH)."""
        os.chown(self.socket, uid, -1)

    def _argv(self) -> list[str]:
        home = self.directory
        argv = [
            find("dockerd") or "dockerd",
            "--data-root",
            str(home / "data"),
            "--exec-root",
            str(home / "exec"),
        ]
        argv += [
            "--pidfile",
            str(home / "pid"),
            "--config-file",
            str(home / "daemon.json"),
            "--host",
            self.url,
        ]
        argv += ["--iptables=false", "--ip6tables=false", "--bridge", self.slot.bridge]
        argv += ["--default-address-pool", f"base={self.slot.pool},size=28", "--shutdown-timeout", "5"]
        for registry in self._insecure:
            argv += ["--insecure-registry", registry]
        if self._tls:
            server = home / "tls" / "server"
            argv += ["--host", f"tcp://127.0.0.1:{self.tcp_port}", "--tlsverify"]
            argv += ["--tlscacert", str(server / "ca.pem"), "--tlscert", str(server / "cert.pem")]
            argv += ["--tlskey", str(server / "key.pem")]
        (home / "daemon.json").write_text("{}\n")
        return argv

    def _make_certificates(self) -> None:
        authority = make_authority(self.directory / "tls")
        authority.issue("server", server=True)
        self.client_certificates = authority.issue("client", server=False)
        self.tcp_port = free_port()

    def _remove_everything(self) -> None:
        paused = self.out("ps", "--quiet", "--filter", "status=paused").split()
        if paused:
            self.docker("unpause", *paused, check=False)
        containers = self.out("ps", "--all", "--quiet").split()
        if containers:
            self.docker("rm", "--force", "--volumes", *containers, check=False)
        networks = self.out("network", "ls", "--quiet", "--filter", "type=custom").split()
        if networks:
            self.docker("network", "rm", *networks, check=False)

    def __enter__(self) -> DockerEngine:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()


def _keep_data_in_memory(directory: Path) -> None:
    """Put an engine's data on a tmpfs where memory is ample: importing and removing a host's tree is then quick."""
    directory.mkdir(mode=0o711)
    facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    if int(facts["MemAvailable"].split()[0]) * 1024 >= 2 * DATA_BYTES_MAX:
        run(
            ["mount", "-t", "tmpfs", "-o", f"size={DATA_BYTES_MAX},mode=0711", "flab", directory], check=False
        )

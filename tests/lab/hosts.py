"""Whole Debian hosts over SSH, as containers of a private engine: systemd as process 1, sshd, sudo.

Each host has an address reachable from this machine (one hidden host only through the first), fresh host keys that
are known beforehand, and faults: stopped, paused, packets dropped, sshd killed in the middle of a command.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import types
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from tests.lab.docker_engine import DockerEngine
from tests.lab.host_image import load_host_image
from tests.lab.keys import known_hosts_line, make_key, public_line
from tests.lab.process import LabError, answers, run, text, wait_until
from tests.lab.workdir import make_work_directory, remove_work_directory

BOOT_TIMEOUT_S = 90.0
SSH_PORT = 22
USER_WITHOUT_PASSWORD = "ops"
USER_WITH_PASSWORD = "careful"
SUDO_PASSWORD = "sudo-of-the-laboratory"
"""What the second user's sudo asks for."""

OPS_UID, CAREFUL_UID = 1000, 1001
GOOD_STATES = ("running",)


@dataclass(frozen=True)
class Host:
    """One host: how to reach it, and whom to trust.

    `via` names the host through which alone it can be reached, or is None. `known_hosts` are the exact lines.
    """

    name: str
    address: str
    port: int
    user: str
    key: Path
    known_hosts: tuple[str, ...]
    via: str | None = None


class HostLab:
    """Hosts h1 … hN and, where asked for, `hidden`; use as a context manager, or `start()` and `stop()`."""

    def __init__(self, engine: DockerEngine, *, count: int = 5, hidden: bool = False) -> None:
        """Describe the hosts; nothing runs before `start()`.

        Args:
            engine: a started engine that will hold them.
            count: hosts reachable from this machine, named h1, h2, … (25 at most).
            hidden: one more host, named `hidden`, reachable only through h1 by `ProxyJump` or a direct-tcpip channel.
        """
        self._engine = engine
        self._count = count
        self._with_hidden = hidden
        self._networks: list[str] = []
        self._directory: Path | None = None
        self.hosts: dict[str, Host] = {}
        self.boot_took_s = 0.0

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    @property
    def directory(self) -> Path:
        """Private directory with the keys; gone after `stop()`."""
        if self._directory is None:
            raise LabError("these hosts are not started")
        return self._directory

    def start(self) -> HostLab:
        """Create all hosts at once and wait until each reports `running` and its sshd answers."""
        try:
            self._create()
            names = list(self.hosts)
            self._engine.docker("start", *map(self.container, names))
            self.boot_took_s = max(self.wait_running(name) for name in names)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Remove the hosts and their networks. Twice is harmless."""
        for name in self.hosts:
            self._engine.docker("rm", "--force", "--volumes", self.container(name), check=False)
        self.hosts = {}
        for network in self._networks:
            self._engine.docker("network", "rm", network, check=False)
        self._networks = []
        if self._directory is not None:
            remove_work_directory(self._directory)
            self._directory = None

    def container(self, name: str) -> str:
        """Name of a host's container in the engine."""
        return f"{self.directory.name}-{name}"

    def write_known_hosts(self, path: Path) -> Path:
        """Write the lines of all hosts to a file and return its path."""
        path.write_text("".join(f"{line}\n" for host in self.hosts.values() for line in host.known_hosts))
        return path

    # What an operator's hands or bad luck do to a host.

    def power_off(self, name: str) -> None:
        """Take the power: every process is gone at once, the disk stays."""
        self._engine.docker("kill", "--signal", "KILL", self.container(name))

    def shut_down(self, name: str) -> None:
        """Shut the host down in order."""
        self._engine.docker("stop", "--time", "30", self.container(name))

    def power_on(self, name: str) -> None:
        """Boot a host that is off, at its old address, and wait until it runs."""
        self._engine.docker("start", self.container(name))
        self.wait_running(name)

    def destroy(self, name: str) -> None:
        """Lose the host for good, its disk too."""
        self._engine.docker("rm", "--force", "--volumes", self.container(name))

    def pause(self, name: str) -> None:
        """Freeze all processes: connections stay open and nobody answers."""
        self._engine.docker("pause", self.container(name))

    def unpause(self, name: str) -> None:
        """Let a frozen host go on where it was."""
        self._engine.docker("unpause", self.container(name))

    def drop(
        self, name: str, *, port: int | None = None, incoming: bool = True, outgoing: bool = True
    ) -> None:
        """Silently lose the host's packets, on its own loopback excepted.

        Args:
            name: the host.
            port: only those of this TCP port of the host (22: sshd alone is cut off).
            incoming: lose what comes in.
            outgoing: lose what goes out; alone, commands arrive and are carried out, and their answers are lost.
        """
        chains = (("INPUT", "-i", "--dport", incoming), ("OUTPUT", "-o", "--sport", outgoing))
        for chain, interface, side, wanted in chains:
            if wanted:
                which = [] if port is None else ["-p", "tcp", side, str(port)]
                self._iptables(name, "-I", chain, "!", interface, "lo", *which, "-j", "DROP")

    def restore(self, name: str) -> None:
        """End all `drop`s of the host."""
        self._iptables(name, "-F")

    def kill_sshd(self, name: str, *, commands: bool = False) -> None:
        """Kill the listening sshd and every connection; what they run goes on unless `commands` is set.

        sshd stays dead until `start_sshd`.
        """
        if commands:
            self.exec(name, "systemctl kill --signal=KILL ssh.service")
        # The reading shell's own name is `sh`; only processes called sshd are hit.
        script = (
            'for p in /proc/[0-9]*; do read -r n <$p/comm && [ "$n" = sshd ] && kill -9 ${p#/proc/}; done'
        )
        self.exec(name, f"{script} 2>/dev/null; true")

    def start_sshd(self, name: str) -> None:
        """Start sshd again; returns when it listens (its unit says so itself)."""
        self.exec(name, "systemctl reset-failed ssh.service; systemctl restart ssh.service")

    # Looking at a host from outside SSH.

    def exec(self, name: str, script: str) -> str:
        """Standard output of a shell script run as root inside the host, past SSH; `LabError` when it fails."""
        return self._engine.out("exec", self.container(name), "/bin/sh", "-c", script)

    def ssh_argv(self, name: str, *words: str, user: str | None = None) -> list[str]:
        """An OpenSSH client command line to the host, through its jump host where it has one."""
        host = self.hosts[name]
        trusted = self.write_known_hosts(self.directory / "known_hosts")
        common = ["-F", "/dev/null", "-o", f"UserKnownHostsFile={trusted}", "-o", "StrictHostKeyChecking=yes"]
        common += ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-i", str(host.key)]
        jump: list[str] = []
        if host.via is not None:
            through = self.hosts[host.via]
            hop = [
                "ssh",
                *common,
                "-W",
                "%h:%p",
                "-p",
                str(through.port),
                f"{through.user}@{through.address}",
            ]
            jump = ["-o", f"ProxyCommand={' '.join(hop)}"]
        return ["ssh", *common, *jump, "-p", str(host.port), f"{user or host.user}@{host.address}", *words]

    def ssh(
        self, name: str, command: str, *, user: str | None = None, input_bytes: bytes | None = None
    ) -> str:
        """Standard output of a command run through the OpenSSH client; `LabError` when it fails."""
        return run(self.ssh_argv(name, command, user=user), input_bytes=input_bytes).stdout.decode()

    def wait_running(self, name: str) -> float:
        """Wait until systemd says `running` and sshd answers; returns the seconds it took."""

        def running() -> bool:
            argv = ("exec", self.container(name), "systemctl", "is-system-running")
            state = self._engine.docker(*argv, check=False).stdout.decode().strip()
            if state == "degraded":
                raise LabError(f"{name} is degraded: {self.exec(name, 'systemctl --failed --no-legend')}")
            return state in GOOD_STATES

        took_s = wait_until(running, f"host {name} runs", timeout_s=BOOT_TIMEOUT_S, poll_s=0.2)
        host = self.hosts[name]
        if host.via is None:
            took_s += wait_until(
                lambda: answers(host.address, host.port), f"sshd of {name} answers", timeout_s=BOOT_TIMEOUT_S
            )
        return took_s

    def _create(self) -> None:
        self._directory = make_work_directory("hosts")
        key = make_key(self._directory / "user_key")
        image = load_host_image(self._engine)
        outer = self._add_network("outer", inner=False)
        for index in range(self._count):
            self._add_host(f"h{index + 1}", outer[index], key, image, network=self._networks[0])
        if self._with_hidden:
            inner = self._add_network("inner", inner=True)
            hidden_network = self._networks[1]
            connect = ("network", "connect", "--ip", inner[0], hidden_network, self.container("h1"))
            self._engine.docker(*connect)
            self._add_host("hidden", inner[1], key, image, network=hidden_network, via="h1")

    def _add_network(self, role: str, *, inner: bool) -> list[str]:
        """Make a network in a free block of the engine's slot; returns the addresses for hosts.

        The bridge of an inner network has no address on the machine, so nothing here reaches it directly.
        """
        name = f"{self.directory.name}-{role}"
        refusals = []
        for number, block in enumerate(self._engine.slot.blocks):
            options = [
                "--subnet",
                block,
                "-o",
                f"com.docker.network.bridge.name={self._engine.slot.bridge}-{number}",
            ]
            if inner:
                options += ["-o", "com.docker.network.bridge.inhibit_ipv4=true"]
            made = self._engine.docker("network", "create", *options, name, check=False)
            if made.returncode == 0:
                self._networks.append(name)
                # The first address is the gateway's.
                return [str(address) for address in ip_network(block).hosts()][1:]
            refusals.append(made.stderr.decode(errors="replace").strip())
        raise LabError(f"no block left for network {name}: {'; '.join(refusals)}")

    def _add_host(
        self, name: str, address: str, key: Path, image: str, *, network: str, via: str | None = None
    ) -> None:
        host_key = make_key(self.directory / f"host_{name}")
        known = known_hosts_line(address, SSH_PORT, public_line(host_key))
        self.hosts[name] = Host(name, address, SSH_PORT, USER_WITHOUT_PASSWORD, key, (known,), via)
        container = self.container(name)
        argv = ["create", "--name", container, "--hostname", name, "--network", network, "--ip", address]
        argv += ["--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined"]
        argv += [
            "--security-opt",
            "apparmor=unconfined",
            "--stop-signal",
            "SIGRTMIN+3",
            "--env",
            "container=docker",
        ]
        argv += ["--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec", *_cgroup_flags()]
        self._engine.docker(*argv, image, "/lib/systemd/systemd")
        files = _identity(host_key, public_line(key), _shadow_hash())
        self._engine.docker("cp", "-", f"{container}:/", input_bytes=files)

    def _iptables(self, name: str, *words: str) -> None:
        pid = self._engine.inspect(self.container(name))["State"]["Pid"]
        run(["nsenter", "--target", str(pid), "--net", "iptables", "-w", "10", *words])

    def __enter__(self) -> HostLab:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()


def _cgroup_flags() -> list[str]:
    """systemd writes to the machine's cgroup tree; under cgroup v2 it must also see it as the machine does."""
    mount = ["--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"]
    return [*mount, "--cgroupns=host"] if Path("/sys/fs/cgroup/cgroup.controllers").exists() else mount


def _shadow_hash() -> str:
    return text(["openssl", "passwd", "-6", SUDO_PASSWORD])


def _identity(host_key: Path, user_key_line: str, password_hash: str) -> bytes:
    """A tar of what makes a copy of the tree this one host: its keys, who may log in, the sudo password."""
    authorized = f"{user_key_line}\n".encode()
    files: Sequence[tuple[str, bytes, int, int]] = [
        ("etc/ssh/ssh_host_ed25519_key", host_key.read_bytes(), 0o600, 0),
        ("etc/ssh/ssh_host_ed25519_key.pub", f"{public_line(host_key)}\n".encode(), 0o644, 0),
        ("root/.ssh/authorized_keys", authorized, 0o600, 0),
        (f"home/{USER_WITHOUT_PASSWORD}/.ssh/authorized_keys", authorized, 0o600, OPS_UID),
        (f"home/{USER_WITH_PASSWORD}/.ssh/authorized_keys", authorized, 0o600, CAREFUL_UID),
        # Read by a unit at boot, so that /etc/shadow of the shared tree need not be known here.
        ("etc/lab-password", f"{USER_WITH_PASSWORD}:{password_hash}\n".encode(), 0o600, 0),
    ]
    sink = io.BytesIO()
    with contextlib.closing(tarfile.open(fileobj=sink, mode="w")) as tar:
        directory = tarfile.TarInfo("root/.ssh")
        directory.type, directory.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(directory)
        for path, content, mode, owner in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.uid, entry.gid = len(content), mode, owner, owner
            tar.addfile(entry, io.BytesIO(content))
    return sink.getvalue()

"""A fleet of emulated guests: its manifests, the command, and what the guests answer.

The release's artifact is the initramfs; the kernel is pinned beside it. The version, the greeting and the
address reach the laboratory's guest through the kernel's command line.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.cli import FLEETCTL, Result
from tests.lab.guest_image import GUEST_PORT
from tests.lab.libvirt_lab import LibvirtLab
from tests.lab.watcher import Endpoint, Watcher, page

VERSIONS = ("1.0.0", "1.1.0")
# Far above what any command here takes, also on a loaded machine: guests are emulated.
RUN_TIMEOUT_S = 400.0
# An emulated guest on a busy machine is slow, which is not the same as down.
ANSWER_TIMEOUT_S = 8.0
Document = dict[str, Any]


def local_host(lab: LibvirtLab, name: str = "vm") -> Document:
    """The Host document of the private libvirt."""
    return {"kind": "Host", "name": name, "libvirt": {"uri": f"qemu+unix:///system?socket={lab.socket}"}}


@dataclass
class Guests:
    """A fleet of guests in a folder of its own, with addresses from the `first` of the laboratory's network on."""

    path: Path
    name: str
    lab: LibvirtLab
    host: Document
    first: int
    count: int = 3
    version: str = "1.0.0"
    greeting: str = "hello"
    memory: str = "256MiB"
    max_unavailable: int = 1
    retain: bool = True
    domain: Document = field(default_factory=dict)
    files: list[Document] = field(default_factory=list)
    health: Document = field(default_factory=dict)
    rollout: Document = field(default_factory=dict)
    group: Document = field(default_factory=dict)
    hosts: list[Document] = field(default_factory=list)
    """Further Host documents."""
    groups: list[Document] = field(default_factory=list)
    """Further groups, on whatever substrate; their artifacts are in `artifacts`, by version."""
    artifacts: dict[str, list[Document]] = field(default_factory=dict)
    places: dict[str, Endpoint] = field(default_factory=dict)
    """Where the nodes of further groups serve."""

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.lab.guest.kernel, self.path / "vmlinuz")
        base = self.lab.guest.initramfs.read_bytes()
        for version in VERSIONS:
            # The kernel skips zeros between archives: other bytes, the same guest.
            (self.path / f"initramfs-{version}").write_bytes(
                base + bytes(512 * (1 + VERSIONS.index(version)))
            )
        self.write()

    def want(self, **wishes: Any) -> Guests:
        """Changes what the manifests say: any of the fields above."""
        for name, value in wishes.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.write()
        return self

    # The command

    def run(self, *args: str) -> Result:
        """Runs fleetctl to its end."""
        done = subprocess.run(
            [FLEETCTL, *args],
            cwd=self.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Starts fleetctl."""
        return subprocess.Popen(
            [FLEETCTL, *args],
            cwd=self.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self) -> Mapping[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLEETCTL_", "PYTEST_"))}
        return {**kept, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}

    def apply(self, *args: str) -> Result:
        """Applies, which must exit 0, and proves that nothing is left to do."""
        done = self.run("apply", ".", "--auto-approve", *args)
        assert done.code == 0, str(done)
        self.unchanged()
        return done

    def unchanged(self) -> None:
        """The plan is empty."""
        again = self.run("plan", ".", "--detailed-exitcode")
        assert again.code == 0, str(again)
        assert again.out.startswith("No changes."), str(again)

    def pending(self) -> str:
        """The text of a plan that has changes."""
        planned = self.run("plan", ".", "--detailed-exitcode")
        assert planned.code == 2, str(planned)
        return planned.out

    def destroy(self) -> Result:
        """Destroys, which must exit 0."""
        done = self.run("destroy", ".", "--auto-approve")
        assert done.code == 0, str(done)
        return done

    def nodes(self) -> dict[str, Document]:
        """What the command sees of the nodes, by name."""
        seen = self.run("inventory", ".", "--format", "json")
        assert seen.code == 0, str(seen)
        return {n["name"]: n for host in seen.json["hosts"] for n in host["nodes"] if n["fleet"] == self.name}

    def domain_name(self, node: str) -> str:
        """The name of a node's domain on the libvirt."""
        return f"fleetctl-{self.nodes()[node]['uid']}"

    # The guests, from outside

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """Where each guest serves."""
        guests = {f"guest-{n}": (self.lab.address(self.first + n), GUEST_PORT) for n in range(self.count)}
        return {**guests, **self.places}

    def ask(self, path: str) -> dict[str, str | None]:
        """What each guest answers for a page."""
        return {
            name: page(*place, path, timeout_s=ANSWER_TIMEOUT_S) for name, place in self.endpoints.items()
        }

    def watch(self) -> Watcher:
        """An outside client of all guests, for a `with` block."""
        return Watcher(self.endpoints, timeout_s=ANSWER_TIMEOUT_S)

    # Manifests

    def write(self) -> None:
        """Writes all documents."""
        documents = [*self._releases(), self.host, *self.hosts, self._fleet()]
        text = yaml.safe_dump_all([{"api_version": "fleetctl/v1", **d} for d in documents], sort_keys=False)
        (self.path / "fleet.yaml").write_text(text, encoding="utf-8")

    def pin(self, name: str) -> Document:
        """A file of the folder with its digest."""
        data = (self.path / name).read_bytes()
        return {"source": f"./{name}", "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}

    def _releases(self) -> list[Document]:
        releases: list[Document] = [
            {
                "kind": "Release",
                "product": "node",
                "version": version,
                "artifacts": [
                    {"substrate": "qemu", "arch": "x86_64", **self.pin(f"initramfs-{version}")},
                    *self.artifacts.get(version, []),
                ],
            }
            for version in VERSIONS
        ]
        pair = {"from": VERSIONS[0], "to": VERSIONS[1], "mode": "rolling", "reverse": "rolling"}
        return [*releases, {"kind": "Compatibility", "product": "node", "pairs": [pair]}]

    def _fleet(self) -> Document:
        prefix = self.lab.address(1).rpartition(".")[0]
        address = f"{prefix}.{{{{ node.index + {self.first + 1} }}}}"
        args = (
            "console=ttyS0 panic=-1 lab.address={{ node.address }}/25 lab.data=/dev/disk "
            "node.VERSION={{ release.version }} node.GREETING=" + self.greeting
        )
        domain = {
            "memory": self.memory,
            "accelerator": "qemu",
            "boot": {
                "artifact": "initrd",
                "kernel": self.pin("vmlinuz"),
                "kernel_args": args.replace("/dev/disk", "/dev/vda"),
            },
            "networks": [{"bridge": self.lab.slot.bridge}],
            "volumes": [{"name": "store", "size": "64MiB"}],
            "address": {"by": "static", "value": address},
            **self.domain,
        }
        return {
            "kind": "Fleet",
            "name": self.name,
            "trust_domain": "lab.internal",
            "release": {"product": "node", "version": self.version},
            "groups": [
                {
                    "name": "guest",
                    "count": self.count,
                    "substrate": "qemu",
                    "hosts": [self.host["name"]],
                    "process": {"command": ["node"], "files": self.files},
                    "domain": domain,
                    "data": {"retain": self.retain},
                    "health": {
                        "http": {"path": "/health", "port": GUEST_PORT},
                        "interval": "200ms",
                        "deadline": "240s",
                        **self.health,
                    },
                    **self.group,
                },
                *self.groups,
            ],
            "rollout": {
                "max_unavailable": self.max_unavailable,
                "reserve": 1 if self.count > 2 else 0,
                "drain": {"timeout": "10s"},
                **self.rollout,
            },
        }

"""A fleet of the laboratory's small daemon on SSH hosts and Docker engines: its manifests, the command, its nodes.

A wish is stated (`want`), and the real `fleetctl` is run as a subprocess. Nodes are asked over HTTP from outside.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.cli import FLEETCTL, Result
from tests.acceptance.remote.outside import Outside
from tests.lab.hosts import HostLab
from tests.lab.images import NODE_PORT, NODE_SCRIPT, node_image
from tests.lab.watcher import Endpoint, page

VERSIONS = ("1.0.0", "1.1.0")
ROOT = "/var/lib/fleetctl"
# Far above what any command here takes, also on a loaded machine.
RUN_TIMEOUT_S = 240.0
Document = dict[str, Any]


def ssh_host(hosts: HostLab, name: str, **more: Any) -> Document:
    """The Host document of one of the laboratory's hosts; `more` goes into its `ssh`."""
    host = hosts[name]
    ssh: Document = {
        "address": host.address,
        "port": host.port,
        "user": host.user,
        "identity_file": str(host.key),
        "known_hosts": "./known_hosts",
        "config_file": "/dev/null",
        "become": {},
    }
    if host.via is not None:
        through = hosts[host.via]
        ssh["jump"] = [f"{through.user}@{through.address}:{through.port}"]
    return {"kind": "Host", "name": name, "root": ROOT, "ssh": {**ssh, **more}}


def engine(name: str, url: str, **more: Any) -> Document:
    """The Host document of a Docker engine; `more` goes beside its `docker`."""
    return {"kind": "Host", "name": name, "docker": {"url": url}, **more}


@dataclass
class Fleet:
    """A fleet in a folder of its own. `hosts` are Host documents, `groups` come from `on_hosts` and `in_containers`."""

    path: Path
    name: str
    hosts: Sequence[Document]
    groups: Sequence[Document]
    max_unavailable: int = 1
    version: str = "1.0.0"
    greeting: str = "hello"
    conf: str = "one"
    retain: bool = True
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    rollout: Document = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    """References by version, `name@sha256:…`; without one, the image comes from an archive."""
    places: dict[str, Endpoint] = field(default_factory=dict)
    """Where nodes are reached that are not at their own address."""

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._artifacts = {v: self._write_artifacts(v) for v in VERSIONS}
        self.write()

    def want(self, **wishes: Any) -> Fleet:
        """Changes what the manifests say: any of the fields above."""
        for name, value in wishes.items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        self.write()
        return self

    # The command

    def run(self, *args: str, env: Mapping[str, str] | None = None) -> Result:
        """Runs fleetctl to its end."""
        done = subprocess.run(
            [FLEETCTL, *args],
            cwd=self.path,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Starts fleetctl; read it with `finished`."""
        return subprocess.Popen(
            [FLEETCTL, *args],
            cwd=self.path,
            env=self.environment(None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finished(self, process: subprocess.Popen[str]) -> Result:
        """Waits for a started fleetctl."""
        out, err = process.communicate(timeout=RUN_TIMEOUT_S)
        return Result(process.returncode, out, err)

    def environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLEETCTL_", "PYTEST_", "DOCKER_"))}
        return {**kept, "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **self.secrets, **(env or {})}

    def settle(self) -> Result:
        """Applies, which must exit 0: what a test begins with."""
        done = self.run("apply", ".", "--auto-approve")
        assert done.code == 0, str(done)
        return done

    def apply(self) -> Result:
        """Applies, which must exit 0, and proves that nothing is left to do."""
        done = self.settle()
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

    def nodes(self) -> list[Document]:
        """What the command sees of the nodes, in the order of their names."""
        seen = self.run("inventory", ".", "--format", "json")
        assert seen.code == 0, str(seen)
        nodes = [node for host in seen.json["hosts"] for node in host["nodes"] if node["fleet"] == self.name]
        return sorted(nodes, key=lambda n: str(n["name"]))

    def uid(self, node: str) -> str:
        """A node's uid."""
        return next(str(n["uid"]) for n in self.nodes() if n["name"] == node)

    # The nodes, from outside

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """Where each node serves, by its name."""
        found: dict[str, Endpoint] = {}
        addresses = {h["name"]: h.get("address") or h.get("ssh", {}).get("address") for h in self.hosts}
        for group in self.groups:
            for number in range(group["count"]):
                name = f"{group['name']}-{number}"
                host = group["hosts"][number % len(group["hosts"])]
                address = "127.0.0.1" if group["substrate"] == "docker" else addresses[host]
                found[name] = self.places.get(name, (address, group["port"] + number))
        return found

    def ask(self, path: str) -> dict[str, str | None]:
        """What each node answers for a page."""
        return {name: page(*place, path, timeout_s=5.0) for name, place in self.endpoints.items()}

    def watch(self) -> Outside:
        """An outside client of all nodes, for a `with` block."""
        return Outside(self.endpoints)

    def kept(self, watch: Outside, least: int | None = None) -> None:
        """The outside client saw nodes go, and never fewer left than the floor (or exactly `least`)."""
        assert watch.went_down, "the client saw nothing, so it proves nothing"
        story = {name: watch.outages(name) for name in self.endpoints}
        if least is None:
            assert watch.fewest_available >= self.floor, f"floor {self.floor}: {story}"
        else:
            assert watch.fewest_available == least, f"{least} expected: {story}"

    @property
    def count(self) -> int:
        return sum(int(g["count"]) for g in self.groups)

    @property
    def floor(self) -> int:
        return self.count - self.max_unavailable

    # Manifests

    def write(self) -> None:
        """Writes all documents."""
        documents = [*self._releases(), *self.hosts, self._fleet()]
        text = yaml.safe_dump_all([{"api_version": "fleetctl/v1", **d} for d in documents], sort_keys=False)
        (self.path / "fleet.yaml").write_text(text, encoding="utf-8")

    def _releases(self) -> list[Document]:
        releases: list[Document] = []
        for version in VERSIONS:
            artifacts = [{"substrate": "host", **self._artifacts[version][0]}]
            image = self.images.get(version)
            if image is not None:
                pin = {"source": image, "digest": image.partition("@")[2]}
            else:
                pin = self._artifacts[version][1]
            artifacts.append({"substrate": "docker", "arch": "x86_64", **pin})
            releases.append(
                {"kind": "Release", "product": "node", "version": version, "artifacts": artifacts}
            )
        pair = {"from": VERSIONS[0], "to": VERSIONS[1], "mode": "rolling", "reverse": "rolling"}
        return [*releases, {"kind": "Compatibility", "product": "node", "pairs": [pair]}]

    def _fleet(self) -> Document:
        rollout = {"max_unavailable": self.max_unavailable, "reserve": 1 if self.count > 2 else 0}
        return {
            "kind": "Fleet",
            "name": self.name,
            "trust_domain": "lab.internal",
            "release": {"product": "node", "version": self.version},
            "groups": [self._group(g) for g in self.groups],
            "rollout": {**rollout, "drain": {"timeout": "6s"}, **self.rollout},
        }

    def _group(self, group: Document) -> Document:
        env = {**group["process"]["env"], "GREETING": self.greeting, **self.env}
        files = [{"path": "conf", "content": self.conf + "\n", "on_change": "reload"}]
        return {
            **group,
            "process": {**group["process"], "env": env, "files": files},
            "data": {"path": "data", "retain": self.retain},
            "health": {"http": {"path": "/health"}, "interval": "200ms", "success": 2, "deadline": "30s"},
        }

    def _write_artifacts(self, version: str) -> tuple[Document, Document]:
        # Bytes of its own: fleets of several tests share hosts, and what one collects is not another's.
        script = NODE_SCRIPT.read_bytes() + f"\n# {self.name} {version}\n".encode()
        image = node_image(version).archive(f"node:{version}")
        return self._written(f"node-{version}.sh", script), self._written(f"node-{version}.tar", image)

    def _written(self, name: str, data: bytes) -> Document:
        (self.path / name).write_bytes(data)
        return {"source": f"./{name}", "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}


def on_hosts(name: str, hosts: Sequence[str], port: int, *, count: int | None = None) -> Document:
    """A group of processes, one on each host unless `count` says otherwise."""
    env = {
        "PORT": "{{ node.port }}",
        "VERSION": "{{ release.version }}",
        "WWW": "{{ node.data_dir }}/www",
        "DATA_DIR": "{{ node.data_dir }}",
        "CONFIG_FILE": "{{ node.dir }}/conf",
    }
    return {
        "name": name,
        "count": count or len(hosts),
        "substrate": "host",
        "hosts": list(hosts),
        "port": port,
        "process": {"command": ["/bin/sh", "{{ artifact.path }}"], "env": env},
    }


def in_containers(name: str, hosts: Sequence[str], port: int, count: int, **container: Any) -> Document:
    """A group of containers."""
    settings = {"port": NODE_PORT, "bind": "127.0.0.1", "tmpfs": ["/tmp"], **container}
    env = {"DATA_DIR": "{{ node.data_dir }}", "CONFIG_FILE": "{{ node.dir }}/conf"}
    return {
        "name": name,
        "count": count,
        "substrate": "docker",
        "hosts": list(hosts),
        "port": port,
        "process": {"command": ["/bin/node"], "env": env},
        "container": settings,
    }

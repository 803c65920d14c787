"""Writes large manifests for the benchmarks: fleets of nodes written out one by one, or counted.

    python -m tests.bench.gen_manifests FOLDER --fleets 100 --nodes 100 [--counted] [--version 1.1.0]

The artifacts are a few bytes each, with true digests; the hosts are spread evenly.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

VERSIONS = ("1.0.0", "1.1.0")
# As many nodes of the benchmark as one host may hold without their ports meeting.
NODES_PER_HOST = 500
FIRST_PORT = 20_000


def write(
    folder: Path, *, fleets: int, nodes: int, counted: bool = False, version: str = VERSIONS[1]
) -> Path:
    """A folder of manifests: `fleets` fleets of `nodes` nodes each, all to run `version`. Gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    hosts = max(1, -(-fleets * nodes // NODES_PER_HOST))
    (folder / "hosts.yaml").write_text("".join(_host(i) for i in range(hosts)), encoding="utf-8")
    (folder / "releases.yaml").write_text(_releases(folder), encoding="utf-8")
    with (folder / "fleets.yaml").open("w", encoding="utf-8") as out:
        for i in range(fleets):
            out.write(_counted(i, nodes, hosts, version) if counted else _explicit(i, nodes, hosts, version))
    return folder


def _host(i: int) -> str:
    return f"""---
api_version: fleetctl/v1
kind: Host
name: host-{i}
labels: {{zone: z{i % 3}}}
ssh: {{address: "10.0.{i // 250}.{i % 250 + 1}", user: fleet}}
root: /srv/fleet
"""


def _releases(folder: Path) -> str:
    documents = []
    for version in VERSIONS:
        name = f"hello-{version}.bin"
        data = f"hello {version}\n".encode()
        (folder / name).write_bytes(data)
        documents.append(
            f"""---
api_version: fleetctl/v1
kind: Release
product: hello
version: "{version}"
artifacts:
  - {{substrate: host, source: ./{name}, digest: "sha256:{hashlib.sha256(data).hexdigest()}"}}
"""
        )
    documents.append(
        f"""---
api_version: fleetctl/v1
kind: Compatibility
product: hello
pairs:
  - {{from: "{VERSIONS[0]}", to: "{VERSIONS[1]}", mode: rolling, reverse: rolling}}
"""
    )
    return "".join(documents)


def _head(i: int, version: str) -> str:
    return f"""---
api_version: fleetctl/v1
kind: Fleet
name: fleet-{i}
trust_domain: bench.internal
release: {{product: hello, version: "{version}"}}
rollout: {{max_unavailable: 10%, reserve: 1}}
groups:
  - name: web
    substrate: host
    process:
      command: [hello, "{{{{ artifact.path }}}}", --port, "{{{{ node.port }}}}", --data, "{{{{ node.data_dir }}}}"]
      env: {{GREETING: hello, NODE: "{{{{ node.name }}}}"}}
    data: {{path: data}}
    health: {{http: {{path: /health}}, deadline: 30s}}
"""


def _explicit(i: int, nodes: int, hosts: int, version: str) -> str:
    lines = [_head(i, version), "    nodes:\n"]
    for j in range(nodes):
        number = i * nodes + j
        lines.append(
            f"      - {{name: node-{i}-{j}, host: host-{number % hosts}, port: {FIRST_PORT + number // hosts}, "
            f"labels: {{rack: r{j % 40}}}}}\n"
        )
    return "".join(lines)


def _counted(i: int, nodes: int, hosts: int, version: str) -> str:
    # The hosts of a counted group share its range of ports, so each fleet has a range of its own there.
    chosen = ", ".join(f"host-{h}" for h in sorted({i % hosts}))
    first = FIRST_PORT + (i // hosts) * nodes
    return f"{_head(i, version)}    count: {nodes}\n    hosts: [{chosen}]\n    port: {first}\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fleets", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=100, help="nodes of each fleet")
    parser.add_argument("--counted", action="store_true", help="`count:` instead of nodes one by one")
    parser.add_argument("--version", default=VERSIONS[1], choices=VERSIONS)
    arguments = parser.parse_args()
    write(
        arguments.folder,
        fleets=arguments.fleets,
        nodes=arguments.nodes,
        counted=arguments.counted,
        version=arguments.version,
    )


if __name__ == "__main__":
    main()

"""Large fleets for planning: every node runs 1.0.0 and is to run 1.1.0.

Run as a program, `python -m tests.bench.plan_data [NODES]` plans them in this process and prints the CPU
time of each part and the peak memory; `--profile` shows where the time goes. `write` lays the same fleets
out as files for the whole command.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import hashlib
import json
import pstats
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from manifests.manifest import Manifests
from manifests.schema.compatibility import Compatibility
from manifests.schema.fleet import Fleet
from manifests.schema.host import Host
from manifests.schema.release import Release
from manifests.template import Renderer
from planner.check import check
from planner.make import make
from planner.observed import HealthState, NodeState, ObservedHost, ObservedNode, Snapshot
from planner.options import Options
from planner.plan import Plan, encode
from planner.recorded import Recorded, RecordedNode, derive_uid
from planner.spec import NodeSpec, fields

NODES_PER_FLEET = 100
NOW = "2030-01-01T00:00:00Z"
LINEAGE = "11111111-2222-4333-8444-555555555555"
ROOT = "/srv/fleetctl"
OLD, NEW = "1.0.0", "1.1.0"
T = TypeVar("T")


def _digest(version: str) -> str:
    return "sha256:" + hashlib.sha256(version.encode()).hexdigest()


def documents(fleets: int) -> list[dict[str, object]]:
    """The documents of `fleets` fleets of 100 nodes on 10 hosts each, as a manifest has them."""
    out: list[dict[str, object]] = [
        {
            "api_version": "fleetctl/v1",
            "kind": "Release",
            "product": "hello",
            "version": version,
            "artifacts": [
                {
                    "substrate": "host",
                    "arch": "any",
                    "source": f"/srv/artifacts/hello-{version}.py",
                    "digest": _digest(version),
                }
            ],
        }
        for version in (OLD, NEW)
    ]
    pair = {"from": OLD, "to": NEW, "mode": "rolling", "reverse": "rolling"}
    out.append({"api_version": "fleetctl/v1", "kind": "Compatibility", "product": "hello", "pairs": [pair]})
    for f in range(fleets):
        hosts = [f"h{f}-{h}" for h in range(10)]
        out += [{"api_version": "fleetctl/v1", "kind": "Host", "name": h, "root": ROOT} for h in hosts]
        out.append(
            {
                "api_version": "fleetctl/v1",
                "kind": "Fleet",
                "name": f"fleet-{f}",
                "trust_domain": "bench.internal",
                "release": {"product": "hello", "version": NEW},
                "groups": [
                    {
                        "name": "web",
                        "count": NODES_PER_FLEET,
                        "substrate": "host",
                        "hosts": hosts,
                        "port": 18080,
                        "process": {
                            "command": ["python3", "{{ artifact.path }}", "--port", "{{ node.port }}"],
                            "env": {"GREETING": "hello", "NODE": "{{ node.name }}"},
                        },
                        "health": {"http": {"path": "/health"}, "interval": "1s", "min_ready": "3s"},
                    }
                ],
                "rollout": {
                    "max_unavailable": "10%",
                    "reserve": 20,
                    "canary": {"count": 1},
                    "drain": {"signal": "TERM", "timeout": "20s"},
                },
            }
        )
    return out


def _frozen(value: object) -> object:
    """Lists become tuples, as the loader hands them to the models."""
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return {k: _frozen(v) for k, v in value.items()}
    return value


def manifests(fleets: int) -> Manifests:
    """The same documents, loaded."""
    docs = [_frozen(d) for d in documents(fleets)]

    def of(kind: str) -> list[object]:
        return [d for d in docs if isinstance(d, dict) and d["kind"] == kind]

    releases = [Release.model_validate(d) for d in of("Release")]
    hosts = [Host.model_validate(d) for d in of("Host")]
    parsed = [Fleet.model_validate(d) for d in of("Fleet")]
    return Manifests(
        fleets={f.name: f for f in parsed},
        hosts={h.name: h for h in hosts},
        releases={(r.product, r.version): r for r in releases},
        compatibility=tuple(Compatibility.model_validate(d) for d in of("Compatibility")),
        render=Renderer().render,
    )


def facts(wanted: Manifests) -> tuple[Snapshot, dict[str, Recorded]]:
    """What is observed and recorded: every node runs the old release and is healthy."""
    old = wanted.releases["hello", OLD]
    seen: dict[str, list[ObservedNode]] = {}
    recorded = {}
    for name, fleet in wanted.fleets.items():
        before = fleet.model_copy(update={"release": fleet.release.model_copy(update={"version": OLD})})
        specs = _specs(before, wanted)
        nodes = {}
        for i, (node, spec) in enumerate(specs.items()):
            uid = derive_uid(name, node, 0)
            nodes[uid] = RecordedNode(uid, node, "web", spec.host, spec.port, 1, spec, spec)
            seen.setdefault(spec.host, []).append(
                ObservedNode(
                    uid=uid,
                    fleet=name,
                    name=node,
                    lineage=LINEAGE,
                    epoch=1,
                    generation=1,
                    version=OLD,
                    digest=old.artifacts[0].digest,
                    fields=fields(spec, {}),
                    state=NodeState.RUNNING,
                    health=HealthState.PASSING,
                    instance=f"{1000 + i}:{123456 + i}",
                    started_at=NOW,
                    operation="op",
                    attempt=1,
                    port=spec.port,
                )
            )
        recorded[name] = Recorded(fleet=name, lineage=LINEAGE, serial=7, epoch=1, nodes=nodes)
    hosts = tuple(
        ObservedHost(name=h, substrate="host", reachable=True, arch="x86_64", os="linux", nodes=tuple(n))
        for h, n in seen.items()
    )
    return Snapshot(taken_at=NOW, hosts=hosts), recorded


def _specs(fleet: Fleet, wanted: Manifests) -> dict[str, NodeSpec]:
    """The specifications of a fleet that is new: what its first plan places."""
    alone = Manifests(
        fleets={fleet.name: fleet},
        hosts=wanted.hosts,
        releases=wanted.releases,
        render=wanted.render,
    )
    hosts = tuple(
        ObservedHost(name=h, substrate="host", reachable=True, arch="x86_64") for h in fleet.groups[0].hosts
    )
    plan = make(alone, Snapshot(taken_at=NOW, hosts=hosts), {}, Options(), NOW, {})
    return plan.fleets[0].specs


def write(folder: Path, nodes: int) -> tuple[Path, Path]:
    """The manifests (JSON, which is YAML) and the snapshot as files; gives their paths."""
    fleets = nodes // NODES_PER_FLEET
    manifest, snapshot = folder / "fleets.yaml", folder / "observed.json"
    manifest.write_text("".join(f"---\n{json.dumps(d)}\n" for d in documents(fleets)), encoding="utf-8")
    seen, _ = facts(manifests(fleets))
    snapshot.write_text(seen.model_dump_json(), encoding="utf-8")
    return manifest, snapshot


def timed(what: str, work: Callable[[], T]) -> T:
    begun = time.process_time()
    result = work()
    print(f"{what:8} {1000 * (time.process_time() - begun):8.0f} ms CPU")
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes", type=int, nargs="?", default=10_000)
    parser.add_argument("--gc", action="store_true", help="leave the collector on")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    wanted = manifests(given.nodes // NODES_PER_FLEET)
    observed, recorded = facts(wanted)
    if not given.gc:
        gc.disable()  # as the command does: a plan is many small values that live until the end
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def plan() -> Plan:
        return make(wanted, observed, recorded, Options(), NOW, {})

    if given.profile:
        profile = cProfile.Profile()
        profile.runcall(lambda: (lambda p: (check(p), encode(p)))(plan()))
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return
    begun = time.process_time()
    made = timed("make", plan)
    assert timed("check", lambda: check(made)) == []
    size = len(timed("encode", lambda: encode(made)))
    total_ms = 1000 * (time.process_time() - begun)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steps = sum(len(f.steps) for f in made.fleets)
    print(f"total    {total_ms:8.0f} ms CPU for {given.nodes} nodes, {steps} steps, {size / 1e6:.1f} MB")
    print(
        f"memory   {after_kib / 1024:8.0f} MiB peak, {(after_kib - before_kib) / 1024:.0f} MiB of it by planning"
    )


if __name__ == "__main__":
    main()

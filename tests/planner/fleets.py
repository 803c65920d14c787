"""Small fleets for the planner's tests: documents made by the program, and a model of the world.

The model is what a substrate would be if every effect succeeded: it takes a plan's steps, changes what
would be observed and recorded, and knows who is available and which versions are live at each moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from manifests.manifest import Manifests
from manifests.schema.compatibility import Compatibility
from manifests.schema.fleet import Fleet
from manifests.schema.host import Host
from manifests.schema.release import Release
from manifests.template import Renderer
from planner.make import make
from planner.observed import HealthState, Loss, NodeState, ObservedHost, ObservedNode, Snapshot
from planner.options import Options
from planner.plan import FleetPlan, Plan, Step, StepKind
from planner.recorded import Recorded, RecordedNode
from planner.spec import NodeSpec, fields

NOW = "2030-01-01T00:00:00Z"
LINEAGE = "lineage-1"


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def release(version: str, product: str = "hello", *, build: str = "", arch: str = "any") -> Release:
    substrates = ("host", "docker", "qemu")
    return Release.model_validate(
        {
            "api_version": "fleetctl/v1",
            "kind": "Release",
            "product": product,
            "version": version,
            "artifacts": tuple(
                {
                    "substrate": s,
                    "arch": arch,
                    "source": f"/src/{product}-{version}.py",
                    "digest": digest(f"{product} {version} {build}"),
                }
                for s in substrates
            ),
        }
    )


def host(name: str, **values: Any) -> Host:
    return Host.model_validate(
        {"api_version": "fleetctl/v1", "kind": "Host", "name": name, "root": "/srv/fleet", **values}
    )


def compatibility(
    *pairs: tuple[str, ...] | dict[str, Any], product: str = "hello", **values: Any
) -> Compatibility:
    """Pairs as (from, to, mode[, reverse]) or as the document has them."""
    listed = tuple(
        p if isinstance(p, dict) else dict(zip(("from", "to", "mode", "reverse"), p, strict=False))
        for p in pairs
    )
    return Compatibility.model_validate(
        {"api_version": "fleetctl/v1", "kind": "Compatibility", "product": product, "pairs": listed} | values
    )


def group(name: str = "web", count: int | None = 3, **values: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": name,
        "substrate": "host",
        "process": {"command": ("python3", "{{ artifact.path }}", "--port", "{{ node.port }}")},
        "port": 18080,
    }
    if "nodes" not in values:
        body["count"] = count
    return body | values


def fleet(version: str, *groups: dict[str, Any], name: str = "hello", **values: Any) -> Fleet:
    return Fleet.model_validate(
        {
            "api_version": "fleetctl/v1",
            "kind": "Fleet",
            "name": name,
            "trust_domain": "hello.internal",
            "release": {"product": "hello", "version": version},
            "groups": groups or (group(),),
            "rollout": values.pop("rollout", {}),
            **values,
        }
    )


def manifests(
    *fleets: Fleet,
    releases: Iterable[Release] | None = None,
    compat: Iterable[Compatibility] = (),
    hosts: Iterable[Host] = (),
    **values: Any,
) -> Manifests:
    if releases is None:
        releases = [release(v) for v in ("1.0.0", "1.1.0", "1.2.0", "2.0.0")]
    values.setdefault("render", Renderer().render)
    return Manifests(
        fleets={f.name: f for f in fleets},
        hosts={h.name: h for h in (host("localhost"), *hosts)},
        releases={(r.product, r.version): r for r in releases},
        compatibility=tuple(compat),
        **values,
    )


@dataclass
class Real:
    """One node of the model."""

    uid: str
    name: str
    fleet: str
    group: str
    host: str
    generation: int
    spec: NodeSpec
    state: NodeState = NodeState.STOPPED
    health: HealthState = HealthState.UNKNOWN
    lineage: str = LINEAGE
    values: dict[str, str] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()
    started_at: str | None = None

    @property
    def available(self) -> bool:
        return self.state is NodeState.RUNNING and self.health is HealthState.PASSING

    @property
    def live(self) -> bool:
        return self.state is NodeState.RUNNING


class World:
    """What is there, and what the ledger believes."""

    def __init__(self, *hosts: str, secrets: Mapping[str, str] | None = None) -> None:
        self.hosts = list(hosts) or ["localhost"]
        self.nodes: dict[str, Real] = {}
        self.recorded: dict[str, dict[str, RecordedNode]] = {}
        self.serial = 0
        self.unreachable: set[str] = set()
        self.secrets = dict(secrets or {})
        self.arch: dict[str, str] = {}
        self.called: list[tuple[StepKind, str | None]] = []

    def snapshot(self) -> Snapshot:
        hosts = []
        for name in self.hosts:
            for substrate in ("host", "docker", "qemu"):
                inside = [n for n in self.nodes.values() if n.host == name and n.spec.substrate == substrate]
                if name in self.unreachable:
                    hosts.append(
                        ObservedHost(name=name, substrate=substrate, reachable=False, error="no route")
                    )
                    continue
                hosts.append(
                    ObservedHost(
                        name=name,
                        substrate=substrate,
                        reachable=True,
                        arch=self.arch.get(name, "x86_64"),
                        nodes=tuple(self._observed(n) for n in inside),
                    )
                )
        return Snapshot(taken_at=NOW, hosts=tuple(hosts))

    def _observed(self, n: Real) -> ObservedNode:
        return ObservedNode(
            uid=n.uid,
            fleet=n.fleet,
            name=n.name,
            lineage=n.lineage,
            epoch=1,
            generation=n.generation,
            version=n.spec.version,
            digest=n.spec.artifact.digest,
            fields=dict(n.values),
            state=n.state,
            health=n.health,
            port=n.spec.port,
            losses=n.losses,
            started_at=n.started_at,
        )

    def ledger(self) -> dict[str, Recorded]:
        return {
            name: Recorded(fleet=name, lineage=LINEAGE, serial=self.serial, nodes=dict(nodes))
            for name, nodes in self.recorded.items()
        }

    def plan(self, wanted: Manifests, **options: Any) -> Plan:
        return make(wanted, self.snapshot(), self.ledger(), Options(**options), NOW, self.secrets)

    def apply(self, plan: Plan) -> World:
        """Every step in order of its id, each succeeding."""
        for fleet_plan in plan.fleets:
            for step in fleet_plan.steps:
                self.perform(fleet_plan, step)
        return self

    def reach(self, wanted: Manifests, **options: Any) -> World:
        """Plans and applies; the plan must not be refused."""
        plan = self.plan(wanted, **options)
        assert not plan.refused, [r for f in plan.fleets for r in f.refusals]
        return self.apply(plan)

    def perform(self, fleet_plan: FleetPlan, step: Step) -> None:
        self.serial += 1
        if step.kind in (StepKind.STAGE, StepKind.PRE_ROLLOUT, StepKind.POST_ROLLOUT):
            self.called.append((step.kind, step.uid))
            return
        assert step.uid is not None
        assert step.node is not None
        assert step.spec is not None
        spec = fleet_plan.specs[step.spec]
        recorded = self.recorded.setdefault(fleet_plan.fleet, {})
        change = next(c for c in fleet_plan.changes if c.uid == step.uid)
        node = self.nodes.get(step.uid)
        match step.kind:
            case StepKind.CREATE:
                self.nodes[step.uid] = Real(
                    step.uid, step.node, fleet_plan.fleet, change.group, step.host, step.generation, spec,
                    values=fields(spec, self.secrets),
                )  # fmt: skip
                recorded[step.uid] = RecordedNode(
                    step.uid, step.node, change.group, step.host, spec.port, step.generation, spec
                )
            case StepKind.PRE_DRAIN | StepKind.DRAIN:
                assert node is not None
                assert node.state in (NodeState.RUNNING, NodeState.PAUSED)
                node.health = HealthState.FAILING  # out of the balancer, or told to serve nobody
                self.called.append((step.kind, step.uid))
            case StepKind.BACKUP:
                assert node is None or not node.live
                self.called.append((step.kind, step.uid))
            case StepKind.POST_START:
                assert node is not None
                assert node.live
                self.called.append((step.kind, step.uid))
            case StepKind.START:
                assert node is not None
                node.state, node.health = NodeState.RUNNING, HealthState.UNKNOWN
                if step.uid in recorded:
                    recorded[step.uid] = replace(recorded[step.uid], withdrawn_at=None, drained=False)
            case StepKind.STOP:
                assert node is not None
                node.state, node.health = NodeState.STOPPED, HealthState.UNKNOWN
            case StepKind.RELOAD:
                assert node is not None
                node.spec, node.values, node.health = spec, fields(spec, self.secrets), HealthState.UNKNOWN
                recorded[step.uid] = replace(recorded[step.uid], spec=spec)
            case StepKind.VERIFY:
                assert node is not None
                node.health = HealthState.PASSING
            case StepKind.DESTROY:
                assert node is not None
                del self.nodes[step.uid]
                if change.action == "destroy":
                    recorded[step.uid] = replace(recorded[step.uid], destroyed=True)
            case StepKind.ADOPT:
                assert node is not None
                node.lineage = LINEAGE
                recorded[step.uid] = RecordedNode(
                    step.uid, step.node, change.group, step.host, spec.port, node.generation, node.spec
                )

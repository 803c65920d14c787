"""The world as it will be when a plan has been carried out: what the next one of several starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.change import Action, Change
from planner.observed import HealthState, NodeState, ObservedHost, ObservedNode, Snapshot
from planner.plan import FleetPlan
from planner.recorded import Recorded, RecordedNode
from planner.spec import NodeSpec, fields

_PLACED = (Action.CREATE, Action.REPLACE, Action.RESTART, Action.RELOAD)


def outcome(
    plan: FleetPlan, observed: Snapshot, recorded: Recorded, secrets: Mapping[str, str]
) -> tuple[Snapshot, Recorded]:
    """What would be observed and recorded if every step of the plan succeeded.

    The serial stays: how many entries a journal takes is the engine's business.
    """
    changes = {c.uid: c for c in plan.changes if c.action is not Action.NOOP}
    nodes = dict(recorded.nodes)
    for change in changes.values():
        known = next((n for n in nodes.values() if n.uid == change.uid), None)
        spec = plan.specs.get(change.node)
        if change.action is Action.DESTROY:
            if known is not None:
                nodes[known.uid] = replace(known, destroyed=True)
        elif change.action in _PLACED and spec is not None:
            nodes[change.uid] = RecordedNode(
                change.uid, change.node, change.group, change.host, spec.port, change.generation, spec, spec
            )
    hosts = tuple(_host(plan, host, changes, recorded.lineage or "", secrets) for host in observed.hosts)
    return observed.model_copy(update={"hosts": hosts}), replace(recorded, nodes=nodes)


def _host(
    plan: FleetPlan,
    host: ObservedHost,
    changes: Mapping[str, Change],
    lineage: str,
    secrets: Mapping[str, str],
) -> ObservedHost:
    if not host.reachable:
        return host
    nodes = [n for n in host.nodes if n.uid not in changes]
    for change in changes.values():
        spec = plan.specs.get(change.node)
        if spec is None or change.host != host.name or spec.substrate != host.substrate:
            continue
        if change.action in _PLACED:
            nodes.append(_node(plan, change, spec, lineage, secrets))
        elif change.action is Action.ADOPT:
            nodes += [n.model_copy(update={"lineage": lineage}) for n in host.nodes if n.uid == change.uid]
    return host.model_copy(update={"nodes": tuple(nodes)})


def _node(
    plan: FleetPlan, change: Change, spec: NodeSpec, lineage: str, secrets: Mapping[str, str]
) -> ObservedNode:
    return healthy(
        plan.fleet, change.node, change.uid, change.generation, spec, lineage, fields(spec, secrets)
    )


def healthy(
    fleet: str,
    name: str,
    uid: str,
    generation: int,
    spec: NodeSpec,
    lineage: str,
    managed: dict[str, str],
) -> ObservedNode:
    """A node that runs as specified and serves; `managed` are its fields in the form of `planner.spec.fields`."""
    return ObservedNode(
        uid=uid,
        fleet=fleet,
        name=name,
        lineage=lineage,
        epoch=0,
        generation=generation,
        version=spec.version,
        digest=spec.artifact.digest,
        fields=managed,
        state=NodeState.RUNNING,
        health=HealthState.PASSING,
        port=spec.port,
        address=spec.address,
    )

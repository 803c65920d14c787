"""Case files: a fleet's story, step by step, and what the planner has to say at each. A bug report becomes one.

Each scene may change the world (`faults`, `unreachable`, `edits`), wants something (`version`, `groups`,
`rollout`, `pairs`), and expects parts of the plan; `apply: true` carries it out before the next scene.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests.address import parse
from planner.check import check
from planner.observed import HealthState, NodeState
from planner.plan import FleetPlan
from planner.spec import fields
from tests.planner.fleets import World, compatibility, fleet, group, host, manifests, release

FOLDER = Path(__file__).parent.parent / "cases" / "planner"
VERSIONS = ("1.0.0", "1.1.0", "1.2.0", "2.0.0", "1.0.0+a", "1.0.0+b")
KNOWN = {
    "wants", "version", "groups", "rollout", "pairs", "environment", "hosts", "builds", "options", "faults", "edits",
    "unreachable", "expect", "apply",
}  # fmt: skip


def frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(frozen(v) for v in value)
    if isinstance(value, dict):
        return {k: frozen(v) for k, v in value.items()}
    return value


def stories() -> list[Any]:
    return [
        pytest.param(story, id=f"{path.stem}: {story['story']}")
        for path in sorted(FOLDER.glob("*.yaml"))
        for story in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def node_called(world: World, name: str) -> str:
    return next(uid for uid, n in world.nodes.items() if n.name == name)


def suffer(world: World, faults: dict[str, str]) -> None:
    for name, fault in faults.items():
        uid = node_called(world, name)
        node = world.nodes[uid]
        match fault:
            case "gone":
                del world.nodes[uid]
            case "sick":
                node.health = HealthState.FAILING
            case "exited" | "stopped" | "paused" | "damaged":
                node.state, node.health = NodeState(fault), HealthState.UNKNOWN
            case "foreign":
                node.lineage = "another"
            case "forgotten":
                del world.recorded[node.fleet][uid]
            case "well":
                node.state, node.health = NodeState.RUNNING, HealthState.PASSING
            case _ if fault.startswith("runs "):
                _runs(world, uid, fault.removeprefix("runs "))
            case _:
                raise AssertionError(f"no such fault: {fault}")


def _runs(world: World, uid: str, version: str) -> None:
    """Left half-way by an earlier rollout: this version is there, and the ledger knows it."""
    node = world.nodes[uid]
    made = release(version)
    old = node.spec.artifact
    artifact = old.model_copy(
        update={"digest": made.artifacts[0].digest, "name": made.artifacts[0].source.rpartition("/")[2]}
    )
    place = (f"{old.digest[7:]}/{old.name}", f"{artifact.digest[7:]}/{artifact.name}")
    command = tuple(part.replace(*place) for part in node.spec.command)
    node.spec = node.spec.model_copy(update={"version": version, "artifact": artifact, "command": command})
    node.values = fields(node.spec, world.secrets)
    world.recorded[node.fleet][uid] = replace(world.recorded[node.fleet][uid], spec=node.spec)


@pytest.mark.parametrize("story", stories())
def test_story(story: dict[str, Any]) -> None:
    world = World(*story.get("hosts", ["localhost"]), secrets=story.get("secrets"))
    memory: dict[str, Any] = {}
    for scene in story["scenes"]:
        assert set(scene) <= KNOWN, f"unknown keys {set(scene) - KNOWN}"
        memory |= {
            k: v
            for k, v in scene.items()
            if k in ("version", "groups", "rollout", "pairs", "builds", "environment")
        }
        suffer(world, scene.get("faults", {}))
        for name, edits in scene.get("edits", {}).items():
            node = world.nodes[node_called(world, name)]
            node.values = {k: v for k, v in (node.values | edits).items() if v is not None}
        world.unreachable = set(scene.get("unreachable", ()))
        plan = world.plan(_wanted(story, memory), **_options(scene.get("options", {})))
        assert check(plan) == []
        _expect(plan.fleets[0], scene.get("expect", {}))
        if scene.get("apply"):
            assert not plan.refused, plan.fleets[0].refusals
            world.apply(plan)


def _wanted(story: dict[str, Any], memory: dict[str, Any]) -> Any:
    bodies = [group(**frozen(g)) for g in memory.get("groups", [{}])]
    builds = memory.get("builds", {})
    return manifests(
        fleet(memory["version"], *bodies, rollout=frozen(memory.get("rollout", {}))),
        releases=[release(v, build=builds.get(v, "")) for v in VERSIONS],
        compat=_compat(memory),
        hosts=[host(h) for h in story.get("hosts", []) if h != "localhost"],
    )


def _compat(memory: dict[str, Any]) -> list[Any]:
    if not memory.get("pairs"):
        return []
    pairs = [p if isinstance(p, dict) else tuple(p) for p in memory["pairs"]]
    return [compatibility(*pairs, environment=frozen(memory.get("environment", [])))]


def _options(given: dict[str, Any]) -> dict[str, Any]:
    out = dict(given)
    if "targets" in out:
        out["targets"] = tuple(parse(t) for t in out["targets"])
    return out


def _expect(plan: FleetPlan, wanted: dict[str, Any]) -> None:
    changes = {c.node: c for c in plan.changes}
    said = " ".join(str(r) for r in plan.refusals)
    facts: dict[str, Any] = {
        "strategy": plan.rollout.strategy,
        "changes": {n: str(c.action) for n, c in changes.items() if c.action != "no-op"},
        "refusals": [r.code for r in plan.refusals],
        "steps": len(plan.steps),
        "minimum": plan.budgets[0].minimum,
        "window": plan.rollout.window,
        "no_return": None if plan.no_return is None else plan.steps[plan.no_return].node,
        "lost": sorted(n for n, c in changes.items() if c.data_lost),
        "drift": sorted(n for n, c in changes.items() if c.drift),
    }
    for key, value in wanted.items():
        found: Any
        if key == "reasons":
            found = {n: [r.code for r in changes[n].reasons] for n in value}
        elif key == "generations":
            found = {n: changes[n].generation for n in value}
        elif key == "placed":
            found = {n: f"{changes[n].host}:{plan.specs[n].port}" for n in value}
        elif key == "order":
            found = _order(plan)
        elif key == "says":
            for text in value:
                assert text in said, f"{text!r} is not in {said}"
            continue
        elif key == "warns":
            for text in value:
                assert any(text in w for w in plan.warnings), f"{text!r} is not in {plan.warnings}"
            continue
        else:
            found = facts[key]
        assert found == value, f"{key}: {found} (refusals: {said})"


def _order(plan: FleetPlan) -> list[str]:
    """Phase by phase, who is in it: `stage`, `create a b`, …"""
    phases: dict[int, list[str]] = {}
    for step in plan.steps:
        inside = phases.setdefault(step.phase, [])
        inside.append(f"{step.kind} {step.node}" if step.node else str(step.kind))
    return [", ".join(steps) for _, steps in sorted(phases.items())]

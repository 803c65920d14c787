"""Generated fleets in generated states: any groups, any starting mix, any failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from manifests.manifest import Manifests
from manifests.schema.compatibility import Compatibility
from planner.observed import HealthState, NodeState
from tests.planner.fleets import World, compatibility, fleet, group, host, manifests

VERSIONS = ("1.0.0", "1.1.0", "1.2.0", "2.0.0")
HOSTS = ("h0", "h1", "h2")
NODES_MAX = 40


@dataclass
class Case:
    """What is wanted, what is there, and what was asked."""

    wanted: Manifests
    world: World
    options: dict[str, Any]


@st.composite
def pairs(draw: st.DrawFn) -> Compatibility:
    """Any table over the versions; the first pair is there so that the document is never empty."""
    declared: dict[tuple[str, str], dict[str, str]] = {}
    for i, old in enumerate(VERSIONS):
        for new in VERSIONS[i + 1 :]:
            mode = draw(st.sampled_from(("rolling", "rolling", "rolling", "full", "refuse", None)))
            if mode is not None:
                reverse = draw(st.sampled_from(("rolling", "rolling", "full", "never")))
                declared[old, new] = {"from": old, "to": new, "mode": mode, "reverse": reverse}
    declared.setdefault(("1.0.0", "1.1.0"), {"from": "1.0.0", "to": "1.1.0", "mode": "rolling"})
    return compatibility(*declared.values())


@st.composite
def groups(draw: st.DrawFn, *, version: str | None) -> list[dict[str, Any]]:
    out = []
    for i in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, draw(st.sampled_from((3, 3, 6, NODES_MAX)))))
        body = group(
            f"g{i}",
            count,
            substrate=draw(st.sampled_from(("host", "host", "docker"))),
            hosts=tuple(draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=3, unique=True))),
            port=20000 + 1000 * i,
            health={"http": {}},
        )
        if version is None and draw(st.booleans()):
            body["release"] = {"product": "hello", "version": draw(st.sampled_from(VERSIONS))}
        if count and draw(st.sampled_from((False, False, True))):
            body["budget"] = {"max_unavailable": draw(st.integers(1, 3))}
        out.append(body)
    return out


@st.composite
def rollouts(draw: st.DrawFn) -> dict[str, Any]:
    out: dict[str, Any] = {
        "max_unavailable": draw(st.sampled_from((1, 1, 2, 3, "25%", "50%", "100%"))),
        "reserve": draw(st.sampled_from((0, 0, 1, 2))),
        "strategy": draw(st.sampled_from(("auto", "auto", "auto", "rolling", "full"))),
        "max_failures": draw(st.sampled_from((0, 40))),
    }
    if draw(st.booleans()):
        out["canary"] = {"count": draw(st.integers(1, 3))}
    if draw(st.sampled_from((False, False, True))):
        out["max_unavailable_per_host"] = draw(st.integers(1, 2))
    return out


@st.composite
def cases(draw: st.DrawFn, *, healthy: bool = False) -> Case:
    """A fleet that was made at some versions, then suffered, and is now wanted otherwise."""
    table = draw(pairs())
    hosts = [host(h) for h in HOSTS]
    world = World(*HOSTS, "localhost")
    loose = {"max_unavailable": "100%"}
    first = fleet(draw(st.sampled_from(VERSIONS)), *draw(groups(version="any")), rollout=loose)
    world.reach(manifests(first, compat=[table], hosts=hosts))
    if not healthy:
        _suffer(draw, world)
    version = draw(st.sampled_from(VERSIONS))
    bodies = draw(groups(version=None))
    for body in bodies:
        if draw(st.sampled_from((False, False, True))):
            process = dict(body["process"])
            process["env"] = {"MODE": draw(st.sampled_from(("a", "b")))}
            process["on_change"] = draw(st.sampled_from(("reload", "restart", "replace")))
            body["process"] = process
    second = fleet(version, *bodies, rollout=draw(rollouts()))
    options: dict[str, Any] = {"accept_downtime": draw(st.booleans())}
    return Case(manifests(second, compat=[table], hosts=hosts), world, options)


def _suffer(draw: st.DrawFn, world: World) -> None:
    """Some nodes die, hang, are paused, vanish, or run another version than was recorded."""
    states = st.sampled_from(("well", "well", "well", "sick", "dead", "stopped", "paused", "gone", "half"))
    for uid, node in list(world.nodes.items()):
        match draw(states):
            case "sick":
                node.health = HealthState.FAILING
            case "dead":
                node.state, node.health = NodeState.EXITED, HealthState.UNKNOWN
            case "stopped":
                node.state, node.health = NodeState.STOPPED, HealthState.UNKNOWN
            case "paused":
                node.state, node.health = NodeState.PAUSED, HealthState.UNKNOWN
            case "gone":
                del world.nodes[uid]
            case "half":
                version = draw(st.sampled_from(VERSIONS))
                spec = node.spec.model_copy(update={"version": version})
                node.spec = spec
                node.values = node.values | {"release.version": version}
                recorded = world.recorded[node.fleet]
                recorded[uid] = replace(recorded[uid], spec=spec)
            case _:
                pass
    if draw(st.sampled_from((False, False, False, True))):
        world.unreachable.add(draw(st.sampled_from(HOSTS)))

"""Generated fleets in generated states: any groups, any starting mix, any failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from manifests.address import Address, GroupAddress, HostAddress, NodeAddress
from manifests.manifest import Manifests
from manifests.schema.compatibility import Compatibility
from planner.observed import HealthState, NodeState
from tests.planner.fleets import NOW, World, compatibility, fleet, group, host, manifests

VERSIONS = ("1.0.0", "1.1.0", "1.2.0", "2.0.0")
HOSTS = ("h0", "h1", "h2")
NODES_MAX = 66


@dataclass
class Case:
    """What is wanted, what is there, and what was asked."""

    wanted: Manifests
    world: World
    options: dict[str, Any]


@st.composite
def pairs(draw: st.DrawFn) -> Compatibility:
    """Any table over the versions; the first pair is there so that the document is never empty."""
    declared: dict[tuple[str, str], dict[str, Any]] = {}
    for i, old in enumerate(VERSIONS):
        for new in VERSIONS[i + 1 :]:
            mode = draw(st.sampled_from(("rolling",) * 6 + ("full", "refuse", None, None)))
            if mode is not None:
                reverse = draw(st.sampled_from(("rolling",) * 5 + ("full", "never")))
                changes_format = draw(st.sampled_from((False, False, False, True)))
                declared[old, new] = {
                    "from": old,
                    "to": new,
                    "mode": mode,
                    "reverse": reverse,
                    "changes_format": changes_format,
                }
    declared.setdefault(("1.0.0", "1.1.0"), {"from": "1.0.0", "to": "1.1.0", "mode": "rolling"})
    return compatibility(*declared.values())


@st.composite
def groups(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One to three groups as they were at first."""
    out = []
    for i in range(draw(st.integers(1, 3))):
        body = group(
            f"g{i}",
            draw(st.integers(0, draw(st.sampled_from((4, 4, 8, NODES_MAX))))),
            substrate=draw(st.sampled_from(("host", "host", "docker"))),
            hosts=tuple(draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=3, unique=True))),
            port=20000 + 1000 * i,
            health={"http": {}},
            labels={"rack": draw(st.sampled_from(("r1", "r2")))},
        )
        out.append(body)
    return out


@st.composite
def changed(draw: st.DrawFn, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same groups as they are wanted now: mostly as they were, in another order, with other pins."""
    out: list[dict[str, Any]] = []
    for body in draw(st.permutations(bodies)):
        now = dict(body)
        match draw(st.sampled_from(("same", "same", "same", "scale", "hosts", "substrate", "drop"))):
            case "scale":
                now["count"] = draw(st.integers(0, 8))
            case "hosts":
                now["hosts"] = tuple(draw(st.permutations(HOSTS)))
            case "substrate":
                now["substrate"] = draw(st.sampled_from(("host", "docker")))
            case "drop" if len(bodies) > 1 and out:
                continue
            case _:
                pass
        if draw(st.sampled_from((False, False, True))):
            now["process"] = dict(body["process"]) | {
                "env": {"MODE": draw(st.sampled_from(("a", "b")))},
                "on_change": draw(st.sampled_from(("reload", "restart", "replace"))),
            }
        if draw(st.sampled_from((False, False, False, True))):
            now["release"] = {"product": "hello", "version": draw(st.sampled_from(VERSIONS))}
        if draw(st.sampled_from((False, False, True))):
            now["budget"] = {"max_unavailable": draw(st.integers(1, 3))}
        out.append(now)
    return out


@st.composite
def rollouts(draw: st.DrawFn) -> dict[str, Any]:
    out: dict[str, Any] = {
        "max_unavailable": draw(st.sampled_from((1, 1, 2, 3, "50%", "100%"))),
        "reserve": draw(st.sampled_from((0, 0, 0, 1))),
        "strategy": draw(st.sampled_from(("auto",) * 8 + ("rolling", "full"))),
        "max_failures": draw(st.sampled_from((0, 40))),
    }
    if draw(st.booleans()):
        out["canary"] = {"count": draw(st.integers(1, 3))}
    if draw(st.sampled_from((False, False, True))):
        out["max_unavailable_per_host"] = draw(st.integers(1, 2))
    if draw(st.sampled_from((False, False, True))):
        out["max_unavailable_per_label"] = {"rack": draw(st.integers(1, 2))}
    hook = {"command": ("./hook", "{{ fleet.name }}")}
    out["hooks"] = {
        moment: (hook,) * draw(st.sampled_from((0, 0, 1, 2)))
        for moment in ("pre_rollout", "pre_drain", "post_start", "post_rollout")
    }
    out["hooks"]["backup"] = (hook,) * draw(st.sampled_from((0, 1, 1, 1, 2)))
    if draw(st.booleans()):
        out["drain"] = {"http": {"path": "/drain/{{ node.name }}"}, "until": {"http": {"path": "/drained"}}}
    return out


@st.composite
def cases(draw: st.DrawFn, *, healthy: bool = False) -> Case:
    """A fleet that was made at some versions, then suffered, and is now wanted otherwise."""
    table = draw(pairs())
    hosts = [host(h) for h in HOSTS]
    world = World(*HOSTS, "localhost")
    bodies = draw(groups())
    first = fleet(draw(st.sampled_from(VERSIONS)), *bodies, rollout={"max_unavailable": "100%"})
    world.reach(manifests(first, compat=[table], hosts=hosts))
    if not healthy:
        _suffer(draw, world)
    second = fleet(draw(st.sampled_from(VERSIONS)), *draw(changed(bodies)), rollout=draw(rollouts()))
    options: dict[str, Any] = {"accept_downtime": draw(st.booleans())}
    if draw(st.sampled_from((False, False, False, True))):
        options["targets"] = tuple(draw(st.lists(targets(), min_size=1, max_size=3)))
    return Case(manifests(second, compat=[table], hosts=hosts), world, options)


def targets() -> st.SearchStrategy[Address]:
    return st.one_of(
        st.sampled_from(HOSTS).map(HostAddress),
        st.integers(0, 2).map(lambda i: GroupAddress("hello", f"g{i}")),
        st.tuples(st.integers(0, 2), st.integers(0, 4)).map(
            lambda at: NodeAddress("hello", f"g{at[0]}-{at[1]}")
        ),
    )


def _suffer(draw: st.DrawFn, world: World) -> None:
    """Some nodes die, hang, are paused, vanish, or run another version than was recorded."""
    states = st.sampled_from(
        ("well",) * 12 + ("sick", "dead", "stopped", "paused", "gone", "half", "drained")
    )
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
            case "drained":
                recorded = world.recorded[node.fleet]
                recorded[uid] = replace(recorded[uid], withdrawn_at=NOW, drained=draw(st.booleans()))
            case _:
                pass
    if draw(st.sampled_from((False, False, False, True))):
        world.unreachable.add(draw(st.sampled_from(HOSTS)))

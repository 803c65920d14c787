"""Planner and engine together: generated fleets are planned from what is there, rolled under faults, planned again.

Never is a floor crossed, a plan that succeeded leaves nothing to do, and one that failed can be planned again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from fleetctl.engine.apply import Result
from manifests.errors import ExitCode
from manifests.manifest import Manifests
from manifests.schema.compatibility import Compatibility
from planner.check import check
from planner.make import make
from planner.observed import Snapshot
from planner.options import Options
from planner.plan import Plan, encode
from planner.recorded import Recorded
from tests.engine.plans import FLEET
from tests.planner.fleets import compatibility, fleet, group, host, manifests
from tests.simulator.harness import Faults, Sim

NOW = "2026-01-01T00:00:00Z"
SEEDS = 80
PAIRS = compatibility(
    ("1.0.0", "1.1.0", "rolling", "rolling"), ("1.1.0", "1.2.0", "rolling"), ("1.0.0", "1.2.0", "full")
)


MOMENTS = {
    "pre_rollout": ("here",),
    "pre_drain": ("here", "host"),
    "post_start": ("here", "host"),
    "backup": ("here", "host"),
    "post_rollout": ("here",),
}


@dataclass
class Story:
    """One fleet in its simulated world."""

    sim: Sim
    shape: dict[str, Any]
    groups: tuple[dict[str, Any], ...]
    hosts: tuple[str, ...]
    compat: Compatibility = PAIRS

    def wanted(self, version: str, **changes: Any) -> Manifests:
        made = fleet(version, *self.groups, name=FLEET, rollout={**self.shape, **changes})
        return manifests(made, compat=(self.compat,), hosts=[host(name) for name in self.hosts])

    def seen(self) -> Snapshot:
        made = [host(name) for name in ("localhost", *self.hosts)]
        readers = {(h.name, "host"): self.sim.world.driver(h, "host") for h in made}
        nodes = self.sim.recorded().live().values()
        specs = {n.uid: n.spec for n in nodes if n.spec is not None}
        return self.sim._observe(readers, FLEET, specs)  # type: ignore[arg-type]

    def plan(self, version: str, *, accept: bool = False, **changes: Any) -> Plan:
        recorded: Recorded = self.sim.recorded()
        wanted = self.wanted(version, **changes)
        options = Options(accept_downtime=accept)
        plan = make(wanted, self.seen(), {FLEET: recorded}, options, NOW, {})
        again = make(wanted, self.seen(), {FLEET: recorded}, options, NOW, {})
        assert encode(plan) == encode(again)
        assert check(plan) == []
        return plan


def story(seed: int) -> Story:
    draw = Random(seed)
    hosts = tuple(f"h{n}" for n in range(draw.randint(1, 4)))
    groups = tuple(
        group(
            f"g{n}",
            draw.randint(1, 4),
            hosts=hosts,
            port=20000 + 100 * n,
            health={"tcp": {}, "interval": "100ms", "deadline": "5s"},
            labels={"rack": f"r{n % 2}"},
        )
        for n in range(draw.randint(1, 3))
    )
    count = sum(g["count"] for g in groups)
    width = draw.randint(1, max(1, count // 2))
    shape: dict[str, Any] = {
        "max_unavailable": width,
        "reserve": 1 if count - width > 1 else 0,
        "auto_revert": draw.random() < 0.5,
        "progress_deadline": "60s",
    }
    if draw.random() < 0.3:
        shape["canary"] = {"count": 1}
    if draw.random() < 0.3:
        shape["max_unavailable_per_host"] = draw.randint(1, 3)
    if draw.random() < 0.3:
        shape["max_unavailable_per_label"] = {"rack": draw.randint(1, 3)}
    shape["hooks"] = {
        moment: ({"command": ("./hook", moment), "where": draw.choice(where)},) * draw.choice((0, 0, 1, 2))
        for moment, where in MOMENTS.items()
    }
    if draw.random() < 0.3:
        shape["drain"] = {"http": {"path": "/drain"}, "until": {"http": {"path": "/drained"}}}
    sim = Sim(Random(seed + 1), latency_s=0.02)
    return Story(sim, shape, groups, hosts)


def live(it: Story, plan: Plan) -> Result:
    settled = it.sim.live(plan)
    it.sim.armed = False
    return settled


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_generated_fleet_lives_through_its_rollouts(seed: int) -> None:
    it, draw = story(seed), Random(seed + 2)
    sim = it.sim
    sim.world.floor = 0
    assert live(it, it.plan("1.0.0")).exit_code is ExitCode.OK
    assert it.plan("1.0.0").empty
    plan = it.plan("1.1.0")
    budget = plan.fleets[0].budgets[0]
    sim.world.floor, sim.world.reserve = budget.floor, budget.reserve
    sim.world.faults = draw.choice((Faults(), Faults(lost_after=0.1), Faults(late=0.05), Faults(begun=0.1)))
    sim.crashes_left, sim.crash_share = draw.choice((0, 2)), 0.05
    sick = draw.random() < 0.3
    if sick:
        sim.world.sick.add("1.1.0")
    result = live(it, plan)
    sim.world.faults, sim.crashes_left = Faults(), 0
    assert sim.broken() == []
    if sick:
        assert result.exit_code is ExitCode.FAILED
        sim.world.sick.clear()
        sim.world.move_on()
    else:
        assert result.exit_code is ExitCode.OK, result.summary
        assert it.plan("1.1.0").empty
    if not it.plan("1.1.0").empty:
        assert live(it, it.plan("1.1.0")).exit_code is ExitCode.OK
    assert it.plan("1.1.0").empty
    assert sim.broken() == []


@pytest.mark.parametrize("seed", range(10))
def test_a_full_change_stops_all_and_starts_all(seed: int) -> None:
    it = story(seed)
    assert live(it, it.plan("1.0.0")).exit_code is ExitCode.OK
    assert it.plan("1.2.0").refused
    plan = it.plan("1.2.0", accept=True)
    assert plan.fleets[0].rollout.strategy == "full"
    mixed: list[set[str]] = []
    it.sim.world.on_change = lambda: mixed.append(set(it.sim.world.versions().values()))
    assert live(it, plan).exit_code is ExitCode.OK
    assert all(len(versions) <= 1 for versions in mixed)
    assert it.plan("1.2.0").empty


@pytest.mark.parametrize("seed", range(10))
def test_a_destroyed_fleet_leaves_nothing(seed: int) -> None:
    it = story(seed)
    assert live(it, it.plan("1.0.0")).exit_code is ExitCode.OK
    options = Options(destroy=True)
    plan = make(it.wanted("1.0.0"), it.seen(), {FLEET: it.sim.recorded()}, options, NOW, {})
    assert live(it, plan).exit_code is ExitCode.OK
    assert it.sim.world.available() == []
    assert it.sim.recorded().live() == {}


@pytest.mark.parametrize("moment", ["pre_rollout", "pre_drain", "post_start", "backup", "post_rollout"])
@pytest.mark.parametrize("revert", [True, False])
def test_a_hook_that_fails_fails_the_rollout_and_stops_it(moment: str, revert: bool) -> None:
    it = story(1)
    hook = ({"command": ("./hook", moment)},)
    it.shape |= {"auto_revert": revert, "canary": None, "hooks": {moment: hook}}
    it.compat = compatibility(
        {"from": "1.0.0", "to": "1.1.0", "mode": "rolling", "reverse": "rolling", "changes_format": True}
    )
    if moment != "backup":
        it.shape["hooks"]["backup"] = ({"command": ("./save",)},)
    assert live(it, it.plan("1.0.0")).exit_code is ExitCode.OK
    it.sim.hooks.failing.add(moment)
    ran = len(it.sim.hooks.ran)
    result = live(it, it.plan("1.1.0"))
    assert (result.exit_code, "hook" in result.summary or "exit status 1" in result.summary) == (
        ExitCode.FAILED,
        True,
    )
    assert any(call.moment == moment for call in it.sim.hooks.ran[ran:])
    versions = set(it.sim.world.versions().values())
    if moment == "pre_rollout" or (revert and moment != "pre_drain"):
        assert versions == {"1.0.0"}
    assert it.sim.broken() == []


def test_a_change_of_format_without_a_backup_is_refused_and_with_one_saves_every_node() -> None:
    it = story(2)
    it.compat = compatibility({"from": "1.0.0", "to": "1.1.0", "mode": "rolling", "changes_format": True})
    it.shape |= {"hooks": {}, "auto_revert": False}
    assert live(it, it.plan("1.0.0")).exit_code is ExitCode.OK
    refused = it.plan("1.1.0")
    assert [r.code for r in refused.fleets[0].refusals] == ["compat.no-backup"]
    it.shape["hooks"] = {"backup": ({"command": ("./save", "{{ node.name }}"), "where": "host"},)}
    assert live(it, it.plan("1.1.0")).exit_code is ExitCode.OK
    saved = [call for call in it.sim.hooks.ran if call.moment == "backup"]
    assert sorted(call.argv[1] for call in saved) == sorted(n.name for n in it.sim.recorded().live().values())
    assert {(c.env["FLEETCTL_VERSION_BEFORE"], c.env["FLEETCTL_VERSION"]) for c in saved} == {
        ("1.0.0", "1.1.0")
    }


def test_the_way_back_runs_the_hooks_of_every_node_once_more() -> None:
    it = story(1)
    it.compat = compatibility(
        {"from": "1.0.0", "to": "1.1.0", "mode": "rolling", "reverse": "rolling", "changes_format": True}
    )
    moments = ("pre_drain", "backup", "post_start")
    hooks = {moment: ({"command": ("./hook", moment)},) for moment in (*moments, "post_rollout")}
    it.shape |= {"auto_revert": True, "canary": None, "hooks": hooks, "drain": {}}
    assert live(it, it.plan("1.0.0")).exit_code is ExitCode.OK
    it.sim.hooks.failing.add("post_rollout")
    it.sim.hooks.ran.clear()
    assert live(it, it.plan("1.1.0")).exit_code is ExitCode.FAILED
    nodes = {n.uid for n in it.sim.recorded().live().values()}
    ran = Counter((call.moment, call.uid) for call in it.sim.hooks.ran)
    assert ran.pop(("post_rollout", "")) == 1
    assert ran == {(moment, uid): 2 for moment in moments for uid in nodes}
    assert it.sim.broken() == []

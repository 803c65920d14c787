"""Properties of every plan, phrased as never, over generated fleets and every order that a plan permits."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manifests.digest import canonical_json
from planner.check import check
from planner.options import Options
from planner.plan import FleetPlan, Step, document, encode
from planner.reading import read_plan
from planner.spec import fields
from tests.planner.fleets import World
from tests.planner.worlds import Case, cases

DOWN = ("pre_drain", "drain", "stop", "reload")
many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class Scheduler:
    """Takes steps in any order that the plan permits: phases, `after`, and the windows. It knows no floor."""

    def __init__(self, plan: FleetPlan, world: World, seed: int) -> None:
        self.plan, self.world = plan, world
        self.chance = random.Random(seed)
        self.done: set[int] = set()
        self.changes = {c.uid: c for c in plan.changes}
        self.down: set[str] = set()
        self.windows = {b.scope: b.window for b in plan.budgets}

    def available(self, scope: str = "fleet") -> int:
        return sum(
            1
            for c in self.changes.values()
            if c.counted
            and (scope == "fleet" or scope == f"group/{c.group}")
            and c.uid in self.world.nodes
            and c.host not in self.world.unreachable
            and self.world.nodes[c.uid].available
        )

    def run(self) -> list[Step]:
        """Yields control after each step through `took`; ends when nothing may start any more."""
        order = []
        while ready := self._ready():
            step = self.chance.choice(ready)
            before = self.available()
            if step.disrupts:
                assert step.uid is not None
                self.down.add(step.uid)
            self.world.perform(self.plan, step)
            if step.kind == "verify" and step.uid is not None:
                self.down.discard(step.uid)
            self.done.add(step.id)
            self.took(step, before)
            order.append(step)
        return order

    def took(self, step: Step, before: int) -> None:
        """What must hold now."""

    def _ready(self) -> list[Step]:
        left = [s for s in self.plan.steps if s.id not in self.done]
        if not left:
            return []
        phase = min(s.phase for s in left)
        return [s for s in left if s.phase == phase and self.done.issuperset(s.after) and self._free(s)]

    def _free(self, step: Step) -> bool:
        if not step.disrupts or step.floor == "none":
            return True
        change = self.changes[step.uid or ""]
        if len(self.down) >= self.plan.rollout.window:
            return False
        group = f"group/{change.group}"
        if group in self.windows:
            inside = sum(1 for u in self.down if self.changes[u].group == change.group)
            if inside >= self.windows[group]:
                return False
        limit = self.plan.rollout.max_unavailable_per_host
        on_host = Counter(self.changes[u].host for u in self.down)
        if limit is not None and on_host[change.host] >= limit:
            return False
        for label, limit in self.plan.rollout.max_unavailable_per_label.items():
            beside = Counter(self._label(self.changes[u].node, label) for u in self.down)
            own = self._label(change.node, label)
            if own is not None and beside[own] >= limit:
                return False
        return True

    def _label(self, node: str, label: str) -> str | None:
        return self.plan.specs[node].labels.get(label)


def planned(case: Case) -> FleetPlan:
    return case.world.plan(case.wanted, **case.options).fleets[0]


@many
@given(cases(), st.integers(0, 2**32))
def test_never_is_a_floor_crossed_whatever_the_order(case: Case, seed: int) -> None:
    """And the numbers beside each step are never better than what happens."""
    plan = planned(case)

    class Watch(Scheduler):
        def took(self, step: Step, before: int) -> None:
            assert step.available is not None
            assert before >= step.available.before
            assert self.available() >= step.available.after
            for budget in plan.budgets:
                now = self.available(budget.scope)
                assert now >= budget.minimum
                inside = budget.scope in (
                    "fleet",
                    f"group/{self.changes[step.uid].group}" if step.uid else "",
                )
                if inside and step.kind in DOWN and step.disrupts and step.floor == "rolling":
                    assert now >= budget.floor

    Watch(plan, case.world, seed).run()


@many
@given(cases(), st.integers(0, 2**32))
def test_never_does_a_plan_get_stuck(case: Case, seed: int) -> None:
    plan = planned(case)
    taken = Scheduler(plan, case.world, seed).run()
    assert len(taken) == len(plan.steps)


@many
@given(cases(), st.integers(0, 2**32))
def test_never_is_an_undeclared_mixed_set_made_live(case: Case, seed: int) -> None:
    """Neither on the way nor at its end; what is live already may stay while no version moves."""
    plan = planned(case)
    rolling = {
        frozenset(two)
        for doc in case.wanted.compatibility
        for pair in doc.pairs
        for two, mode in (((pair.from_, pair.to), pair.mode), ((pair.from_, pair.to), pair.reverse))
        if mode == "rolling"
    }
    hidden = [
        c.before.version
        for c in plan.changes
        if c.host in case.world.unreachable and c.live and c.before is not None
    ]

    def live() -> set[str]:
        seen = {
            n.spec.version
            for n in case.world.nodes.values()
            if n.state in ("running", "paused") and n.host not in case.world.unreachable
        }
        return seen.union(hidden)

    def undeclared(versions: set[str]) -> set[frozenset[str]]:
        return {frozenset(two) for two in combinations(versions, 2)} - rolling

    at_first = undeclared(live())

    class Watch(Scheduler):
        def took(self, step: Step, before: int) -> None:
            if step.kind == "start":
                assert undeclared(live()) <= at_first

    Watch(plan, case.world, seed).run()


@many
@given(cases())
def test_never_does_one_step_lack_what_it_needs(case: Case) -> None:
    """The proof finds nothing in any plan: preconditions, chains, floors, versions, generations."""
    plan = case.world.plan(case.wanted, **case.options)
    assert check(plan) == []


@many
@given(cases())
def test_never_do_the_same_inputs_give_other_bytes(case: Case) -> None:
    one = case.world.plan(case.wanted, **case.options)
    other = case.world.plan(case.wanted, **case.options)
    assert encode(one) == encode(other) == canonical_json(document(one)) + b"\n"
    assert read_plan(encode(one)) == one


@many
@given(cases(), st.integers(0, 2**32))
def test_never_is_anything_left_to_do_after_a_plan_was_carried_out(case: Case, seed: int) -> None:
    plan = planned(case)
    if plan.refusals:
        assert plan.steps == ()
        return
    Scheduler(plan, case.world, seed).run()
    again = planned(case)
    assert (again.refusals, again.steps) == ((), ())


@many
@given(cases(), st.integers(0, 2**32), st.data())
def test_never_does_a_new_plan_fail_where_one_was_cut_off(case: Case, seed: int, data: st.DataObject) -> None:
    """Cut anywhere: what is left can be planned, or is refused, and the floors hold again from there."""
    plan = planned(case)
    if not plan.steps:
        return
    last = data.draw(st.integers(0, len(plan.steps)))

    class Cut(Scheduler):
        def _ready(self) -> list[Step]:
            return super()._ready() if len(self.done) < last else []

    Cut(plan, case.world, seed).run()
    again = case.world.plan(case.wanted, **case.options)
    assert check(again) == []


@many
@given(cases(healthy=True))
def test_never_is_a_node_touched_that_is_as_declared(case: Case) -> None:
    plan = planned(case)
    for change in plan.changes:
        if change.action in ("replace", "restart", "reload"):
            node, spec = case.world.nodes[change.uid], plan.specs[change.node]
            assert node.values != fields(spec, case.world.secrets)


@many
@given(cases(healthy=True))
def test_never_does_a_plan_reach_past_its_targets(case: Case) -> None:
    plan = planned(case)
    if not case.options.get("targets"):
        return
    options = Options(targets=case.options["targets"])
    for step in plan.steps:
        if step.node is not None:
            change = next(c for c in plan.changes if c.uid == step.uid)
            assert options.covers("hello", change.group, change.node, change.host)


@many
@given(cases(), st.integers(0, 2**32))
def test_never_does_data_change_its_format_without_a_backup_before(case: Case, seed: int) -> None:
    plan = planned(case)
    changing = {(v.from_, v.to) for v in plan.verdicts if v.changes_format and not v.together}
    order = Scheduler(plan, case.world, seed).run()
    kinds: dict[str, list[str]] = {}
    for step in order:
        kinds.setdefault(step.uid or "", []).append(step.kind)
    for change in plan.changes:
        edge = (change.before.version if change.before else "", change.after.version if change.after else "")
        if edge in changing and "create" in kinds.get(change.uid, []):
            own = kinds[change.uid]
            assert "backup" in own[: own.index("create")], change


@many
@given(cases(), st.integers(0, 2**32))
def test_never_is_a_hook_left_out_or_run_twice(case: Case, seed: int) -> None:
    plan = planned(case)
    order = Scheduler(plan, case.world, seed).run()
    ran = Counter((s.kind.value, s.uid, s.hook) for s in order if s.hook is not None)
    assert set(ran.values()) <= {1}
    if plan.steps:
        for moment in ("pre_rollout", "post_rollout"):
            assert sum(1 for s in order if s.kind == moment) == len(getattr(plan.hooks, moment))
        others = [s for s in order if s.kind not in ("stage", "pre_rollout", "post_rollout")]
        if others and plan.hooks.pre_rollout:
            assert order.index(next(s for s in order if s.kind == "pre_rollout")) < order.index(others[0])
        if others and plan.hooks.post_rollout:
            assert order[-1].kind == "post_rollout"
    for change in plan.changes:
        own = [s for s in order if s.uid == change.uid]
        spec = plan.specs.get(own[0].spec or "") if own else None
        if spec is None:
            continue
        stops = sum(1 for s in own if s.kind == "stop")
        starts = sum(1 for s in own if s.kind == "start")
        assert sum(1 for s in own if s.kind == "pre_drain") == stops * len(spec.hooks.pre_drain)
        assert sum(1 for s in own if s.kind == "post_start") == starts * len(spec.hooks.post_start)
        drains = stops * int(spec.drain.http is not None and change.available)
        assert sum(1 for s in own if s.kind == "drain") == drains

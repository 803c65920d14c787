"""The proof, taken again: the invariants of a finished plan, recomputed from the document alone.

Nothing of how plans are made is used here. `apply` runs it before it acts, so a plan that was made by
another release, or with a defect, is stopped by what it says itself.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from manifests.address import FleetAddress, GroupAddress, HostAddress, NodeAddress, parse
from planner.change import Change
from planner.check_availability import availability
from planner.check_calls import AROUND, calls, without_calls
from planner.check_versions import versions
from planner.plan import FleetPlan, Plan, Step, intact

_NEW = "create start verify"
_PLACE_HOST = (_NEW, f"stop {_NEW}")
_PLACE_ENGINE = (f"destroy {_NEW}", f"stop destroy {_NEW}")
_PLACE = {"host": _PLACE_HOST, "docker": _PLACE_ENGINE, "qemu": _PLACE_ENGINE}
# What a change may be made of, by action; `replace` and a restart that changes something differ by substrate.
_CHAINS = {
    "create": (_NEW,),
    "reload": ("reload verify",),
    "destroy": ("destroy", "stop destroy"),
    "adopt": ("",),
    "stop": ("stop",),
    "no-op": ("",),
}


def check(plan: Plan) -> list[str]:
    """Each violated invariant as a sentence; empty when the plan keeps its promises."""
    found = [] if intact(plan) else ["the plan id is not the digest of the plan"]
    targets = frozenset(parse(t) for t in plan.targets)
    for fleet in plan.fleets:
        for problem in _fleet(fleet):
            found.append(f"{fleet.fleet}: {problem}")
        if targets:
            found += [
                f"{fleet.fleet}: {c.node} is changed and is none of the targets"
                for c in fleet.changes
                if c.action != "no-op"
                and targets.isdisjoint(
                    {
                        FleetAddress(fleet.fleet),
                        GroupAddress(fleet.fleet, c.group),
                        NodeAddress(fleet.fleet, c.node),
                        HostAddress(c.host),
                    }
                )
            ]
    return found


def _fleet(plan: FleetPlan) -> list[str]:
    if plan.refusals:
        return ["it is refused and has steps"] if plan.steps else []
    found: list[str] = []
    changes = {c.uid: c for c in plan.changes}
    if len(changes) != len(plan.changes):
        found.append("a node has two changes")
    steps: dict[str, list[Step]] = defaultdict(list)
    _graph(plan, changes, steps, found)
    for change in plan.changes:
        _change(plan, change, steps.get(change.uid, []), found)
    _staged(plan, found)
    calls(plan, found)
    if plan.rollout.strategy == "full" and not plan.rollout.accept_downtime:
        found.append("it is a full plan, and no downtime was accepted")
    if plan.rollout.strategy == "none" and plan.steps:
        found.append("it has steps and no strategy")
    found += availability(plan)
    found += versions(plan)
    return found


def _graph(
    plan: FleetPlan, changes: dict[str, Change], steps: dict[str, list[Step]], found: list[str]
) -> None:
    """Ids, order, phases, and that every name leads somewhere."""
    phases = [s.phase for s in plan.steps]
    specs, hosts = plan.specs, plan.hosts
    for i, step in enumerate(plan.steps):
        if step.id != i:
            found.append(f"step {step.id} stands at place {i}")
            continue
        for after in step.after:
            if not 0 <= after < i or phases[after] > step.phase:
                found.append(f"step {i} waits for step {after}, which does not come before it")
        if step.host not in hosts:
            found.append(f"step {i} is on {step.host}, which the plan does not know")
        if step.spec not in specs and step.kind not in AROUND:
            found.append(f"step {i} has no specification")
        if step.deadline_ms <= 0:
            found.append(f"step {i} has no deadline")
        effect = step.kind not in ("stage", "verify", *AROUND)
        if effect != (step.precondition is not None):
            found.append(f"step {i} ({step.kind}) has {'no' if effect else 'a'} precondition")
        if step.uid is None:
            if step.kind != "stage" and step.kind not in AROUND:
                found.append(f"step {i} ({step.kind}) has no node")
            continue
        change = changes.get(step.uid)
        at_place = change is not None and (change.node, change.host) == (step.node, step.host)
        if change is None or not at_place or step.kind in ("stage", *AROUND):
            found.append(f"step {i} ({step.kind}) belongs to no change")
        else:
            steps[step.uid].append(step)


def _change(plan: FleetPlan, change: Change, steps: list[Step], found: list[str]) -> None:
    """That a change is made of all of its steps, in order, and that generations grow."""
    kinds = without_calls(change, steps, plan, found)
    name = change.node
    if change.action == "adopt" and kinds != "adopt":
        found.append(f"{name} is adopted by {kinds or 'nothing'}")
        return
    rest = kinds.removeprefix("adopt").lstrip()
    allowed = _CHAINS.get(change.action)
    if allowed is None:
        substrate = plan.specs[name].substrate if name in plan.specs else "host"
        allowed = _PLACE[substrate]
        if change.action == "restart":
            allowed = (*allowed, "start verify", "stop start verify")
    if rest not in allowed:
        found.append(f"{name} is to {change.action}, and its steps are: {kinds or 'none'}")
        return
    for before, step in pairwise(steps):
        if before.id not in step.after:
            found.append(f"{name}: {step.kind} does not wait for {before.kind}")
    if not steps:
        return
    if change.action != "create" and not change.live and "stop" in kinds:
        found.append(f"{name} does not run and is to be stopped")
    if change.live and "create" in kinds and "stop" not in kinds:
        found.append(f"{name} runs and is replaced without being stopped")
    _generations(change, steps, found)
    if change.action == "destroy":
        data = plan.specs[steps[0].spec].data if steps[0].spec in plan.specs else None
        if data is not None and not data.retain and not change.data_lost:
            found.append(f"{name} loses its data and does not say so")


def _generations(change: Change, steps: list[Step], found: list[str]) -> None:
    """That each step is for what the ones before it leave, and that no generation is used again."""
    name, generation = change.node, 0
    first = steps[0].precondition
    old = first.generation if first is not None else None
    for step in steps:
        kind, now = step.kind, step.generation
        if now < generation:
            found.append(f"{name}: {kind} goes back to generation {now}")
        generation = now
        pre = step.precondition
        if pre is None:
            continue
        if kind == "create":
            if now <= (old or 0) or now != change.generation:
                found.append(f"{name}: generation {now} is not a new one")
            if pre.generation not in (None, old) or (
                change.action == "create" and pre.generation is not None
            ):
                found.append(f"{name}: create expects what the steps before it do not leave")
        elif pre.generation != now and not (kind == "backup" and old is None and pre.generation is None):
            found.append(f"{name}: {kind} is for generation {now} and expects {pre.generation}")
        if pre.generation is not None:
            wanted = change.after if kind in ("start", "post_start") else change.before
            if pre.release is not wanted and pre.release != wanted:
                found.append(f"{name}: {kind} expects another release than the change has")


def _staged(plan: FleetPlan, found: list[str]) -> None:
    """That the bytes are on their host before anything is placed there."""
    staged = {
        (s.host, pin.digest): s.phase
        for s in plan.steps
        if s.kind == "stage" and s.spec in plan.specs
        for pin in plan.specs[s.spec].pins
    }
    missing: set[tuple[str, str]] = set()
    for step in plan.steps:
        if step.kind != "create" or step.spec not in plan.specs:
            continue
        for pin in plan.specs[step.spec].pins:
            key = (step.host, pin.digest)
            if staged.get(key, step.phase) >= step.phase and key not in missing:
                missing.add(key)
                found.append(f"{step.node} is placed on {step.host} before its artifact is there")

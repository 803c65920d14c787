"""The compatibility part of the proof: no version meets another unless the plan's own verdicts join them."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from planner.plan import FleetPlan


def versions(plan: FleetPlan) -> list[str]:
    """Transitions and meetings of versions that the verdicts of the plan do not allow."""
    found: list[str] = []
    full = plan.rollout.strategy == "full"
    modes = {(v.from_, v.to): v.mode for v in plan.verdicts}
    joined = {frozenset(pair) for pair, mode in modes.items() if mode == "rolling"}
    moves: set[tuple[str, str]] = set()
    holders: dict[str, set[str]] = defaultdict(set)
    now: set[str] = set()
    changes = moving = False
    stopped = {s.uid for s in plan.steps if s.kind == "stop"} if full else set()
    for change in plan.changes:
        before, after = change.before, change.after
        touched = change.action not in ("no-op", "adopt")
        if before is not None and change.live:
            now.add(before.version)
            if change.uid not in stopped:
                holders[before.version].add(change.uid)
        if touched and after is not None:
            changes = True
            holders[after.version].add(change.uid)
            if before is None or before.version != after.version:
                moving = True
            if before is not None and before.version != after.version:
                moves.add((before.version, after.version))
    allowed = ("rolling", "full", "unknown") if full else ("rolling",)
    for pair in sorted(moves):
        if modes.get(pair) not in allowed:
            found.append(f"nodes go from {pair[0]} to {pair[1]}, and the verdict is {modes.get(pair)}")
    if not changes:
        return found
    for one, other in combinations(sorted(holders), 2):
        if not moving and one in now and other in now:
            continue
        if len(holders[one] | holders[other]) > 1 and frozenset((one, other)) not in joined:
            found.append(f"{one} and {other} may be live together, and no rolling verdict joins them")
    return found

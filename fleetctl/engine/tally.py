"""A rollout in one line: how many nodes are done, failed, not begun."""

from __future__ import annotations

from fleetctl.engine.rollout import Rollout, Status
from planner.change import Action


def count(rollout: Rollout) -> str:
    """`3 of 3 nodes done`, with those that failed and those that were not begun."""
    planned = [n for n in rollout.nodes.values() if n.action is not Action.NOOP and n.steps]
    done = sum(1 for n in planned if not n.failed and all(s.status is Status.DONE for s in n.steps))
    failed = sorted(n.name for n in planned if n.failed)
    untouched = sum(1 for n in planned if not n.touched and not n.failed)
    text = f"{done} of {len(planned)} nodes done"
    if failed:
        text += f", {len(failed)} failed ({', '.join(failed[:5])}{', …' if len(failed) > 5 else ''})"
    if untouched:
        text += f", {untouched} not begun"
    return text

"""How a rollout stands, for whoever watches: who serves now, what the floors are, which wave is under way."""

from __future__ import annotations

from fleetctl.engine.events import Effect, Report
from fleetctl.engine.rollout import FLEET, Rollout, Status


def tell(rollout: Rollout, out: list[Effect]) -> None:
    """Reports how many serve, if that or the wave is not what was told last. Before the first look nobody knows."""
    if rollout.sampled_s == float("-inf"):
        return
    now = (
        rollout.phase,
        rollout.under_way,
        rollout.reverting,
        *((name, scope.available) for name, scope in rollout.scopes.items()),
    )
    if now == rollout.shown:
        return
    rollout.shown = now
    scopes = {
        name: {
            "available": scope.available,
            "count": scope.budget.count,
            "floor": scope.budget.floor,
            "reserve": scope.budget.hard_floor,
        }
        for name, scope in rollout.scopes.items()
    }
    fleet = scopes.pop(FLEET, None)
    if fleet is None:
        return
    facts = {
        **fleet,
        "under_way": rollout.under_way,
        "wave": rollout.phase,
        "reverting": rollout.reverting,
        "scopes": scopes,
    }
    text = f"{fleet['available']} of {fleet['count']} available"
    out.append(Report("availability", None, text, facts=facts))


def done(rollout: Rollout) -> list[str]:
    """The nodes that were done before, where a run is taken up again; by name."""
    return sorted(
        node.name
        for node in rollout.nodes.values()
        if node.steps and all(step.status is Status.DONE for step in node.steps)
    )

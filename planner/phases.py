"""Who goes when: the phases of a rolling and of a full plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.change import Action
from planner.plan import StepKind
from planner.work import Work


@dataclass(slots=True)
class Phase:
    """Works, each with those of its steps that belong to this phase."""

    items: list[tuple[Work, tuple[StepKind, ...]]] = field(default_factory=list)


def rolling_phases(moving: list[Work], canary: int) -> list[Phase]:
    """Repairs and new nodes; the canary; the rest; and last the nodes that go."""
    going = [w for w in moving if w.change.action is Action.DESTROY]
    early = _in_the_way(going, moving)
    repairs, down, up = [], [], []
    for work in moving:
        if work.change.action is Action.DESTROY:
            continue
        if work.disrupts:
            up.append(work)
        elif work.change.action is Action.CREATE or work.old == work.new:
            repairs.append(work)
        else:
            down.append(work)
    first, second = down[:canary], up[: max(canary - len(down), 0)]
    waves = [early, repairs, first, second, down[len(first) :], up[len(second) :]]
    waves.append([w for w in going if w not in early])
    return [Phase([(w, w.chain()) for w in wave]) for wave in waves if wave]


def full_phases(moving: list[Work]) -> list[Phase]:
    """Stop all, destroy what has to make room, create all, start all, verify all; in the manifest's order."""
    phases = []
    for kinds in (
        (StepKind.ADOPT,),
        (StepKind.STOP,),
        (StepKind.DESTROY,),
        (StepKind.CREATE,),
        (StepKind.START, StepKind.RELOAD),
        (StepKind.VERIFY,),
    ):
        items = [(w, own) for w in moving if (own := tuple(k for k in w.chain() if k in kinds))]
        if items:
            phases.append(Phase(items))
    return phases


def _in_the_way(going: list[Work], moving: list[Work]) -> list[Work]:
    """Nodes that go and hold a port that another one needs: they go first."""
    held = {(w.change.host, w.seen.port): w for w in going if w.seen is not None and w.seen.port is not None}
    if not held:
        return []
    needed = {
        (w.change.host, w.spec.port)
        for w in moving
        if w.spec is not None and w.change.action is not Action.DESTROY
    }
    return [w for place, w in held.items() if place in needed]

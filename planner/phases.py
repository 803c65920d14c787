"""Who goes when: the phases of a rolling and of a full plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.chain import Chain, part
from planner.change import Action
from planner.plan import StepKind
from planner.work import Work

# A full plan, phase by phase: nothing is changed before all have stopped, nothing starts before all are changed.
_FULL = (
    frozenset({StepKind.ADOPT}),
    frozenset({StepKind.PRE_DRAIN, StepKind.DRAIN, StepKind.STOP}),
    frozenset({StepKind.BACKUP}),
    frozenset({StepKind.DESTROY}),
    frozenset({StepKind.CREATE}),
    frozenset({StepKind.START, StepKind.POST_START, StepKind.RELOAD}),
    frozenset({StepKind.VERIFY}),
)


@dataclass(slots=True)
class Phase:
    """Works, each with those of its steps that belong to this phase."""

    items: list[tuple[Work, Chain]] = field(default_factory=list)
    canary: bool = False


def rolling_phases(moving: list[Work], canary: int) -> list[Phase]:
    """Repairs and new nodes; the canary; the rest; and last the nodes that go.

    What goes and holds a port that another node needs goes first.
    """
    destroy = Action.DESTROY
    going = [w for w in moving if w.change.action is destroy]
    early = _in_the_way(going, moving) if going else []
    repairs: list[Work] = []
    down: list[Work] = []
    up: list[Work] = []
    for work in moving:
        if work.change.action is destroy:
            continue
        if work.disrupts:
            up.append(work)
        elif work.seen is None or work.change.before is work.change.after:
            repairs.append(work)
        else:
            down.append(work)
    first, second = down[:canary], up[: max(canary - len(down), 0)]
    waves = [early, repairs, first, second, down[len(first) :], up[len(second) :]]
    waves.append([w for w in going if w not in early] if early else going)
    return [
        Phase([(w, w.links) for w in wave], canary=bool(canary) and (wave is first or wave is second))
        for wave in waves
        if wave
    ]


def full_phases(moving: list[Work]) -> list[Phase]:
    """Stop all, destroy what has to make room, create all, start all, verify all; in the manifest's order."""
    phases = []
    for kinds in _FULL:
        items = [(w, own) for w in moving if (own := part(w.links, kinds))]
        if items:
            phases.append(Phase(items))
    return phases


def _in_the_way(going: list[Work], moving: list[Work]) -> list[Work]:
    """Nodes that go and hold a port that another one needs: they go first."""
    held = {(w.change.host, w.seen.port): w for w in going if w.seen is not None and w.seen.port is not None}
    needed = {
        (w.change.host, w.spec.port)
        for w in moving
        if w.spec is not None and w.change.action is not Action.DESTROY
    }
    return [w for place, w in held.items() if place in needed]

"""What a plan ends or loses for good: what a person must have read before it is approved."""

from __future__ import annotations

from dataclasses import dataclass

from planner.change import Action, Change
from planner.plan import FleetPlan, Plan
from planner.spec import NodeSpec

# What becomes of a node's data when the node ends.
KEPT = "its data stays"
NONE = "it has no data of its own"
REMOVED = "its data is removed and cannot be brought back"
ANONYMOUS = "anonymous volumes of its image are lost"


@dataclass(frozen=True, slots=True)
class Ending:
    """One node that ends, or that loses something: which incarnation of it, where, and what is lost with it.

    `lost`: something cannot be brought back.
    """

    fleet: str
    node: str
    uid: str
    generation: int
    host: str
    version: str
    ends: bool
    what: str
    lost: bool


def endings(plan: Plan) -> tuple[Ending, ...]:
    """Every node that the plan destroys or takes something from, what is lost for good first."""
    found = [ending for f in plan.fleets for c in f.changes if (ending := _of(f, c)) is not None]
    return tuple(sorted(found, key=lambda ending: not ending.lost))


def _of(fleet: FleetPlan, change: Change) -> Ending | None:
    spec = fleet.specs.get(f"{change.node}@{change.uid}") or fleet.specs.get(change.node)
    ends = change.action is Action.DESTROY
    lost = [REMOVED] if change.data_lost else []
    if change.losses:
        lost.append(f"{', '.join(change.losses)} cannot be brought back")
    if change.action is Action.REPLACE and _loses_volumes(spec):
        lost.append(ANONYMOUS)
    if not ends and not lost:
        return None
    kept = []
    if ends and not change.data_lost:
        has = spec is not None and (spec.data is not None or _volumes(spec))
        kept.append(KEPT if has else NONE)
    return Ending(
        fleet.fleet,
        change.node,
        change.uid,
        # A replacement's generation is the next one; what ends is the one before it.
        change.generation - 1 if change.action is Action.REPLACE else change.generation,
        change.host,
        change.before.version if change.before else "",
        ends,
        "; ".join([*lost, *kept]),
        bool(lost),
    )


def _volumes(spec: NodeSpec) -> bool:
    return bool((spec.container and spec.container.volumes) or (spec.domain and spec.domain.volumes))


def _loses_volumes(spec: NodeSpec | None) -> bool:
    return spec is not None and spec.container is not None and spec.container.lose_anonymous_volumes

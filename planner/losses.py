"""What goes for good with a change: what the substrate keeps with a node beside its data."""

from __future__ import annotations

from collections.abc import Collection

from planner.observed import LostBy, ObservedNode
from planner.plan import StepKind


def losses(node: ObservedNode | None, kinds: Collection[StepKind], *, data_lost: bool) -> tuple[str, ...]:
    """What steps of these kinds lose of a node as it was seen, in words, in the order in which it was seen.

    Arguments: `node` None: nothing is there; `data_lost`: its data goes as well.
    """
    if node is None or not node.losses:
        return ()
    by: set[LostBy] = set()
    if StepKind.DESTROY in kinds:
        by |= {"start", "removal"}
        by |= {"end"} if data_lost else set()
    elif StepKind.START in kinds:
        by.add("start")
    return tuple(loss.what for loss in node.losses if loss.by in by)

"""Whose node it is, and whether anybody can say what it is: what must be clear before a node is touched."""

from __future__ import annotations

from manifests.manifest import Path
from planner.observed import NodeState, ObservedNode
from planner.recorded import RecordedNode
from planner.situation import Findings, Situation


def foreign(
    situation: Situation,
    findings: Findings,
    node: ObservedNode,
    recorded: RecordedNode | None,
    name: str,
    host: str,
    path: Path,
) -> bool | None:
    """Whether the node has to be adopted first; None when that is needed and not allowed."""
    ours = situation.recorded.lineage
    if node.lineage == ours and recorded is not None:
        return False
    if node.lineage == ours or situation.options.adopt:
        return True
    findings.refuse(
        "node.foreign",
        "The node belongs to another state",
        f"{name} on {host} was made by a fleet of this name under another lineage "
        f"({node.lineage or 'none'}; this state's is {ours or 'not there yet'})",
        place=situation.place(*path),
        hint="use the state that made it (--state), or plan with --adopt to take it over",
    )
    return None


def damaged(findings: Findings, node: ObservedNode, name: str, host: str) -> bool:
    """Whether nobody can say what the node is; noted as a refusal."""
    if node.state is not NodeState.DAMAGED:
        return False
    findings.refuse(
        "node.damaged",
        "The node's record cannot be read",
        f"{name} ({node.uid}) on {host}: {node.detail or 'nobody can say what runs there'}",
        hint=f"look at it on {host}, stop what runs by hand and remove its record, then plan again",
    )
    return True

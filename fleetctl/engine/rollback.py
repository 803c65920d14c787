"""rollback: where each node of the newest rollout goes back to. The way there is a plan like any other.

The target is what a node was last healthy with before that rollout began, never simply the version before: a
version that failed twice in a row is not gone back to, and one that was never healthy is none at all. A run that
finished what a failed one had begun is one rollout with it, and a rollback belongs to what it undoes: done twice it
changes nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetctl.ledger.operations import State
from fleetctl.ledger.replay import Replayed, Run
from manifests.address import NodeAddress
from manifests.errors import RefusedError
from planner.spec import NodeSpec


@dataclass(frozen=True, slots=True)
class WayBack:
    """What to plan: `back` has the specifications by uid (`planner.options.Options.back`), `targets` the same
    nodes. `stays` names those that cannot go back, each with the reason. `runs` are those that are undone.
    """

    runs: tuple[Run, ...]
    back: Mapping[str, NodeSpec]
    targets: tuple[NodeAddress, ...]
    stays: tuple[tuple[str, str], ...] = ()


def way_back(replayed: Replayed) -> WayBack:
    """Where the nodes that the newest rollout touched go back to. Raises RefusedError where there is no way."""
    recorded, runs = replayed.recorded, replayed.undo
    if not runs:
        raise RefusedError(
            f"fleet {recorded.fleet} has no run that could be undone",
            hint="`fleetctl runs` lists what was run",
            code="rollback.no_run",
        )
    back: dict[str, NodeSpec] = {}
    targets, stays = [], []
    attempts = [r for run in runs for r in run.attempts.values()]
    changed = {r.uid: r.node for r in attempts if r.state is State.SUCCEEDED}
    for uid, name in changed.items():
        node = recorded.nodes.get(uid)
        if node is None or node.destroyed:
            stays.append((name, "it was destroyed"))
            continue
        before = replayed.before.get(uid)
        if before is None or before.last_healthy is None:
            stays.append((node.name, "it was never healthy before that run"))
        elif before.last_healthy != node.spec:
            back[uid] = before.last_healthy
            targets.append(NodeAddress(recorded.fleet, node.name))
    if not back:
        why = f": {stays[0][0]}: {stays[0][1]}" if stays else ", they have what they were last healthy with"
        raise RefusedError(
            f"no node of run {runs[-1].run} of fleet {recorded.fleet} has anywhere to go back to{why}",
            hint="`fleetctl runs` lists what was run",
            code="rollback.no_target",
        )
    return WayBack(runs, back, tuple(targets), tuple(stays))

"""What must hold before the first effect of a plan: design section 5, and P1 and P7 of what broke others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fleetctl.engine.errors import RunWaiting, UnknownOutcome
from fleetctl.engine.gates import stale
from fleetctl.engine.hands import Hands
from fleetctl.ledger.replay import Replayed
from manifests.diagnostics import Diagnostic
from manifests.errors import PolicyRefused, RefusedError, StaleError
from planner.change import Change
from planner.losses import losses
from planner.observed import ObservedNode
from planner.plan import FleetPlan, Plan, StepKind, sealed
from planner.recorded import Recorded

SHOWN_MAX = 5


def sound(plan: Plan, violated: Sequence[str]) -> None:
    """The plan is whole, unedited, not refused, and its invariants hold. Raises StaleError or RefusedError."""
    if sealed(plan).plan_id != plan.plan_id:
        raise StaleError(
            "the plan was changed after it was made: its content does not have its plan id",
            hint="make a new plan; a plan is never edited",
            code="plan.edited",
        )
    refusals = [r for f in plan.fleets for r in f.refusals]
    if refusals:
        raise RefusedError(
            f"the plan is refused: {refusals[0].summary}", hint=refusals[0].hint, code=refusals[0].code
        )
    if violated:
        raise RefusedError(
            f"the plan violates what a plan must keep: {violated[0]}",
            hint="it is not carried out; please report it with the plan's file",
            code="plan.unsound",
        )


def unused(plan: Plan, fleet: FleetPlan, replayed: Replayed) -> None:
    """The fleet has no run that was cut off, and the plan is of this lineage and was never used.

    Raises UnknownOutcome or StaleError.
    """
    recorded = replayed.recorded
    if plan.plan_id in recorded.plans:
        raise StaleError(
            f"this plan was applied to fleet {fleet.fleet} before: a plan is used once",
            hint="make a new plan",
            code="plan.used",
        )
    run = replayed.open_run
    if run is not None and run.waiting:
        raise RunWaiting(
            f"run {run.run} of fleet {fleet.fleet} ({run.command} by {run.who}, since {run.started_at}) waits: "
            f"{run.waiting}",
            hint="end it first: fleetctl resume, promote or abort",
        )
    if run is not None:
        open_ = f", {len(run.unsettled)} outcomes open" if run.unsettled else ""
        raise UnknownOutcome(
            f"run {run.run} of fleet {fleet.fleet} ({run.command} by {run.who}, since {run.started_at}) was cut off"
            f"{open_}",
            hint="fleetctl recover settles what is open and continues its plan",
        )
    if fleet.lineage != recorded.lineage:
        raise StaleError(
            f"the plan was made for another state of fleet {fleet.fleet}: its lineage is "
            f"{fleet.lineage or 'none'}, the state's is {recorded.lineage or 'none'}",
            hint="make a new plan from this state",
            code="plan.other_lineage",
        )
    if fleet.serial > recorded.serial:
        raise StaleError(
            f"the plan knows {fleet.serial} entries of fleet {fleet.fleet}, the state has {recorded.serial}: "
            "the state is older than the plan",
            hint="was a backup restored? Make a new plan from this state",
            code="plan.newer_than_state",
        )


def permitted(findings: Sequence[Diagnostic]) -> None:
    """No policy found an error. Raises PolicyRefused."""
    if any(f.is_error for f in findings):
        raise PolicyRefused(findings)


def fresh(fleet: FleetPlan, recorded: Recorded, hands: Hands) -> None:
    """Every target is as the plan expects it, by a fresh look; what it does not touch cannot make it stale.

    Raises StaleError. A host that does not answer is no difference: its steps will fail as what they are.
    """
    kept_out = sorted({s.host for s in fleet.steps if s.kind is StepKind.START} & recorded.cordoned)
    if kept_out:
        raise StaleError(
            f"the plan starts nodes of fleet {fleet.fleet} on {', '.join(kept_out)}, cordoned since it was made",
            hint="nothing was changed; make a new plan, or uncordon the host",
        )
    specs = {uid: node.spec for uid, node in recorded.nodes.items() if node.spec and not node.destroyed}
    places = {(spec.host, spec.substrate) for spec in (*fleet.specs.values(), *specs.values())}
    snapshot = hands.look(fleet.fleet, frozenset(places), specs)
    seen: dict[str, ObservedNode] = {}
    silent = set()
    for host in snapshot.hosts:
        if not host.reachable:
            silent.add(host.name)
        for node in host.nodes:
            seen[node.uid] = node
    found = []
    begun: set[str] = set()
    changes = {change.uid: change for change in fleet.changes}
    kinds: dict[str, set[StepKind]] = {}
    for step in fleet.steps:
        kinds.setdefault(step.uid or "", set()).add(step.kind)
    for step in fleet.steps:
        if step.uid is None or step.uid in begun:
            continue
        begun.add(step.uid)
        known = recorded.nodes.get(step.uid)
        if known is not None and not known.destroyed and known.name != step.node:
            found.append(f"{step.node}: it is named {known.name} now")
            continue
        if step.host in silent:
            continue
        there = seen.get(step.uid)
        why = stale(step.precondition, there) or _loses_more(changes[step.uid], kinds[step.uid], there)
        if why is not None:
            found.append(f"{step.node}: {why}")
    if found:
        more = f" (and {len(found) - SHOWN_MAX} more)" if len(found) > SHOWN_MAX else ""
        raise StaleError(
            f"fleet {fleet.fleet} has changed since the plan was made: {'; '.join(found[:SHOWN_MAX])}{more}",
            hint="nothing was changed; make a new plan",
        )


def _loses_more(change: Change, kinds: Collection[StepKind], node: ObservedNode | None) -> str | None:
    """What would go for good with a node that the plan did not tell: it came since, a snapshot for example."""
    if node is None or not node.losses:
        return None
    untold = [what for what in losses(node, kinds, data_lost=change.data_lost) if what not in change.losses]
    return f"it would lose {', '.join(untold)}, which is not what the plan says" if untold else None

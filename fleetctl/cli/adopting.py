"""Nodes that another state has made: which can be taken over untouched, and the run that does it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from fleetctl import bootstrap
from fleetctl.cli import approval, carry_out, cut_off, propose
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.options import Sources
from fleetctl.cli.propose import Asked, Proposal
from fleetctl.settings import Settings
from manifests.errors import ExitCode, StaleError

if TYPE_CHECKING:
    from planner.change import Change
    from planner.plan import FleetPlan


def adopt(
    invocation: Invocation, wanted: Sources, settings: Settings, what: Sequence[str], *, auto_approve: bool
) -> int:
    """Takes over the nodes of these addresses that are as the manifests want them; names the others with why.

    Exits 0 when every one of another lineage was taken over, 3 when some need a replacement first.
    """
    from fleetctl.engine.apply import apply

    terminal = invocation.terminal
    proposal = propose.propose(invocation, wanted, settings, Asked(tuple(what), adopt=True))
    cut_off.ensure_none(invocation, settings, [f.fleet for f in proposal.plan.fleets])
    ready, others = _sorted_out(proposal)
    for address, why in others:
        terminal.data(f"{address} needs one replacement: {why}")
    if others:
        terminal.say("Replace those: fleetctl apply --adopt takes over and changes a node in one plan.")
    if not ready:
        terminal.data("Nothing is there that could be taken over untouched.")
        return ExitCode.REFUSED if others else ExitCode.OK
    for address, lineage in ready.items():
        terminal.data(f"{address} is as declared, and is taken over untouched (lineage {lineage})")
    approval.approve(
        terminal, f"Take over {len(ready)} node{'s' if len(ready) > 1 else ''}?", auto=auto_approve
    )
    _rise(invocation, settings, proposal, ready)
    # The journal has a word more than the first plan knows, so a new one is made, of these nodes alone.
    again = propose.propose(invocation, wanted, settings, Asked(tuple(ready), adopt=True))
    if set(_sorted_out(again)[0]) != set(ready):
        raise StaleError("the nodes have changed meanwhile", hint="run the command again")
    code = carry_out.carry_out(
        invocation, settings, again.plan, lambda engine: apply(again.plan, engine, "import")
    )
    return ExitCode.REFUSED if code == ExitCode.OK and others else code


def _sorted_out(proposal: Proposal) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The addresses that need nothing but a new owner, with their lineage; and the others, each with why."""
    from planner.change import Action

    ready: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for plan in proposal.plan.fleets:
        for change in plan.changes:
            lineage = next((r.before for r in change.reasons if r.code == "lineage"), None)
            if lineage is None and not any(r.code == "lineage" for r in change.reasons):
                continue
            address = f"node/{plan.fleet}/{change.node}"
            if change.action is not Action.ADOPT:
                others.append((address, _why(change)))
            elif not _can_be_marked(plan, change):
                uid = change.uid
                others.append(
                    (
                        address,
                        f"its container has no place for a record: docker rm -f fleetctl-{uid}, then apply",
                    )
                )
            else:
                ready[address] = lineage or "none"
    return ready, others


def _why(change: Change) -> str:
    differs = [r.field or r.code for r in change.reasons if r.code != "lineage"]
    return f"it is not as declared ({', '.join(differs) or change.action.value})"


def _can_be_marked(plan: FleetPlan, change: Change) -> bool:
    """A container's record lies in its volume for files, which only nodes with files of their own have."""
    spec = plan.specs.get(change.node)
    if spec is None or spec.substrate != "docker":
        return True
    return any(not file.path.startswith("/") for file in spec.files)


def _rise(invocation: Invocation, settings: Settings, proposal: Proposal, ready: dict[str, str]) -> None:
    """Each fleet's epochs begin above those that its nodes have seen."""
    from fleetctl.engine.adoption import rise_above
    from fleetctl.engine.observer import Silent

    with (
        closing(bootstrap.open_store(settings, invocation.clock, read_only=False)) as store,
        closing(bootstrap.access(settings, invocation.clock)) as reach,
    ):
        engine = bootstrap.engine(settings, invocation.clock, store, Silent(), reach)
        for fleet in {address.split("/")[1] for address in ready}:
            seen = [n.epoch for h in proposal.snapshot.hosts for n in h.nodes if n.fleet == fleet]
            rise_above(engine, fleet, max(seen, default=0) + 1)

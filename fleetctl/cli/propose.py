"""From what is wanted and what is there to a plan, for `plan`, `apply` and `destroy` alike."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from executors.clock import rfc3339
from fleetctl.cli import look, secrets
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.options import Sources
from fleetctl.settings import Settings

if TYPE_CHECKING:
    from fleetctl.engine.rollback import WayBack
    from manifests.manifest import Manifests
    from planner.observed import Snapshot
    from planner.plan import Plan


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for beside the manifests. `observed` is a snapshot's file, instead of looking.

    `back` names a fleet whose newest run is to be undone; empty: the only one. `via`: along declared pairs, as
    consecutive rollouts, where the transition itself is not declared. `drain` names a host whose nodes are stopped. `seal` False: the plan is only shown.
    """

    targets: tuple[str, ...] = ()
    accept_downtime: bool = False
    adopt: bool = False
    destroy: bool = False
    observed: Path | None = None
    back: str | None = None
    via: bool = False
    drain: str = ""
    seal: bool = True


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, and what it was made from. `way` is where a rollback leads; `plans` has, with `via`, the plan and
    those that follow it.
    """

    plan: Plan
    manifests: Manifests
    known: look.Known
    snapshot: Snapshot
    way: WayBack | None = None
    plans: tuple[Plan, ...] = ()


def propose(invocation: Invocation, sources: Sources, settings: Settings, asked: Asked) -> Proposal:
    """Loads, looks and plans; changes nothing and creates nothing. Raises FleetctlError."""
    from manifests import address
    from planner.make import make
    from planner.options import Options

    # A plan is many small values that live until the end: collecting among them is time for nothing.
    gc.disable()
    targets = tuple(address.parse(t) for t in asked.targets)
    if asked.drain:
        targets = (address.HostAddress(asked.drain),)
    manifests = look.load(invocation, sources)
    known = look.know(invocation, manifests, settings)
    way = None if asked.back is None else _way_back(known, asked.back or _only(manifests))
    if asked.observed is not None:
        snapshot = look.read_snapshot(invocation, asked.observed)
    else:
        snapshot = look.observe(invocation, known, settings)
    references = {
        *secrets.references(manifests),
        *secrets.references_of(() if way is None else way.back.values()),
    }
    digests, problems = secrets.keyed_digests(sorted(references), known.key)
    for problem in problems:
        invocation.terminal.say(f"Warning: {problem}; whether its value changed is not checked.")
    options = Options(
        accept_downtime=asked.accept_downtime,
        targets=targets if way is None else way.targets,
        fleets=() if way is None else (way.runs[-1].fleet,),
        adopt=asked.adopt,
        destroy=asked.destroy,
        back={} if way is None else way.back,
        drain=asked.drain,
    )
    # A policy's program is given the plan as a document, which has its id.
    seal = asked.seal or any(p.rules.program is not None for p in manifests.policies.values())
    with invocation.timings.phase("plan"):
        now = rfc3339(invocation.clock.now())
        if asked.via:
            from planner.via import consecutive

            fleet = _only(manifests)
            plans = consecutive(manifests, snapshot, known.recorded, options, now, digests, fleet)
        else:
            plans = (make(manifests, snapshot, known.recorded, options, now, digests, seal=seal),)
    return Proposal(plans[0], manifests, known, snapshot, way, plans)


def _only(manifests: Manifests) -> str:
    """The one fleet of the manifests. Raises WhichFleet."""
    from fleetctl.cli.steering import WhichFleet

    if len(manifests.fleets) == 1:
        return next(iter(manifests.fleets))
    raise WhichFleet(
        f"the manifests have several fleets: {', '.join(sorted(manifests.fleets))}"
        if manifests.fleets
        else "the manifests have no fleet",
        hint="name one: --fleet NAME",
    )


def _way_back(known: look.Known, fleet: str) -> WayBack:
    """Raises RefusedError when there is nothing that was healthy before."""
    from fleetctl.engine.rollback import way_back
    from manifests.errors import FleetctlError

    if fleet not in known.replayed:
        raise FleetctlError(
            f"no fleet is named {fleet}",
            hint=f"the manifests have {', '.join(sorted(known.replayed)) or 'none'}",
            code="plan.no-such-fleet",
        )
    return way_back(known.replayed[fleet])


def tell_cut_off(invocation: Invocation, known: look.Known) -> None:
    """Says which fleets have a run that was cut off, or is under way."""
    terminal = invocation.terminal
    for fleet, replayed in known.replayed.items():
        run = replayed.open_run
        if run is None:
            continue
        terminal.say(
            f"{terminal.err_paint('yellow bold', 'Note:')} a run on fleet/{fleet} was cut off or is under way "
            f"({run.command}, begun {run.started_at}); if it was cut off, settle it first: fleetctl recover"
        )

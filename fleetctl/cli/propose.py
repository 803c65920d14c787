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
    from manifests.manifest import Manifests
    from planner.observed import Snapshot
    from planner.plan import Plan


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for beside the manifests. `observed` is a snapshot's file, instead of looking."""

    targets: tuple[str, ...] = ()
    accept_downtime: bool = False
    adopt: bool = False
    destroy: bool = False
    observed: Path | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, and what it was made from."""

    plan: Plan
    manifests: Manifests
    known: look.Known
    snapshot: Snapshot


def propose(invocation: Invocation, sources: Sources, settings: Settings, asked: Asked) -> Proposal:
    """Loads, looks and plans; changes nothing and creates nothing. Raises FleetctlError."""
    from manifests import address
    from planner.make import make
    from planner.options import Options

    # A plan is many small values that live until the end: collecting among them is time for nothing.
    gc.disable()
    targets = tuple(address.parse(t) for t in asked.targets)
    manifests = look.load(invocation, sources)
    known = look.know(invocation, manifests, settings)
    if asked.observed is not None:
        snapshot = look.read_snapshot(invocation, asked.observed)
    else:
        snapshot = look.observe(invocation, known, settings)
    digests, problems = secrets.keyed_digests(secrets.references(manifests), known.key)
    for problem in problems:
        invocation.terminal.say(f"Warning: {problem}; whether its value changed is not checked.")
    options = Options(
        accept_downtime=asked.accept_downtime, targets=targets, adopt=asked.adopt, destroy=asked.destroy
    )
    with invocation.timings.phase("plan"):
        plan = make(manifests, snapshot, known.recorded, options, rfc3339(invocation.clock.now()), digests)
    return Proposal(plan, manifests, known, snapshot)


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

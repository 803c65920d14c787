"""Runs that were cut off stand before everything new: `apply` says so and exits 5."""

from __future__ import annotations

from collections.abc import Iterable

from fleetctl import bootstrap
from fleetctl.cli.invocation import Invocation
from fleetctl.settings import Settings


def ensure_none(invocation: Invocation, settings: Settings, fleets: Iterable[str]) -> None:
    """Raises UnknownOutcome (5) for a run that was cut off, RunWaiting (8) for one that waits for a person, and
    LeaseHeld (6) for one that is under way elsewhere."""
    from fleetctl.engine.errors import RunWaiting, UnknownOutcome

    store = bootstrap.open_store(settings, invocation.clock, read_only=True)
    try:
        open_runs = [r.open_run for r in bootstrap.replayed(store, fleets).values() if r.open_run is not None]
    finally:
        store.close()
    for run in open_runs:
        if run.waiting:
            raise RunWaiting(
                f"run {run.run} of fleet/{run.fleet} ({run.command} of {run.who}, begun {run.started_at}) waits: "
                f"{run.waiting}",
                hint="go on with it, or end it: fleetctl resume, promote or abort",
            )
        # Its holder may be alive: then this is somebody else's work, and no loss.
        bootstrap.ensure_free(settings, invocation.clock, run.fleet)
        raise UnknownOutcome(
            f"run {run.run} of fleet/{run.fleet} ({run.command} of {run.who}, begun {run.started_at}) was cut off",
            hint="settle it first: fleetctl recover",
        )

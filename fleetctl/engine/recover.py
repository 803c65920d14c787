"""recover: a run that was cut off is taken up again: what is open is looked up, and its plan goes on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from fleetctl.engine.apply import Engine, Result, acquire, carry_out, hands_for
from fleetctl.ledger.ports import StateError, Store
from fleetctl.ledger.replay import Replayed, Run, replay
from manifests.errors import ExitCode
from planner.plan import FleetPlan, Plan

NOTHING = "nothing to recover: no run was cut off"


def recover(engine: Engine, fleets: Iterable[str] | None = None, command: str = "recover") -> Result:
    """Takes up every run that was cut off, of these fleets or of all, and carries its plan to its end.

    The lease of a dead holder on this machine is taken over at once. Operations left open are looked up; one
    that stays unknown ends with exit code 5 and is listed. Fleets of the same plan that were not begun yet
    follow. Raises LeaseHeld, StateError, and what resolving a secret raises.
    """
    names = list(engine.store.fleets() if fleets is None else fleets)
    cut_off = open_runs(engine.store, names)
    if not cut_off:
        return Result(ExitCode.OK, NOTHING)
    results = []
    for document in dict.fromkeys(run.document for run in cut_off.values()):
        runs = {fleet: run for fleet, run in cut_off.items() if run.document == document}
        results.append(_recover_plan(engine, document, runs, command))
    fleets_done = tuple(f for r in results for f in r.fleets)
    bad = [r for r in results if r.exit_code is not ExitCode.OK]
    worst = max(bad, key=lambda r: r.exit_code is ExitCode.UNKNOWN, default=results[0])
    return Result(worst.exit_code, "; ".join(r.summary for r in results), fleets_done)


def open_runs(store: Store, fleets: Iterable[str]) -> dict[str, Run]:
    """The runs of these fleets that were cut off or wait, by fleet."""
    found = {fleet: replay(fleet, store.read(fleet)).open_run for fleet in fleets}
    return {fleet: run for fleet, run in found.items() if run is not None}


def runs(store: Store, fleet: str) -> tuple[Run, ...]:
    """Every run of a fleet, in order."""
    return replay(fleet, store.read(fleet)).runs


def stored_plan(store: Store, document: str) -> Plan:
    """The plan that a run carries out, as it was stored. Raises StateError."""
    try:
        return Plan.model_validate_json(store.get(document))
    except ValueError as e:
        raise StateError(
            f"the stored plan {document} cannot be read",
            hint="it may come from a newer fleetctl: use that one for this state",
            code="state.newer",
        ) from e


def _recover_plan(engine: Engine, document: str, cut_off: dict[str, Run], command: str) -> Result:
    plan = stored_plan(engine.store, document)
    todo = [f for f in plan.fleets if f.steps and (f.fleet in cut_off or _unused(engine, plan, f))]
    # What comes before the first fleet that was cut off is over, whatever became of it.
    first = next(n for n, f in enumerate(todo) if f.fleet in cut_off)
    todo = todo[first:]
    run = next(iter(cut_off.values())).run
    with ExitStack() as stack:
        tenancy = acquire(engine, todo, run, command, stack)
        # Again, now that nobody else can change it: somebody may have recovered it a moment ago.
        still = open_runs(engine.store, [f.fleet for f in todo])
        if not any(fleet in still for fleet in cut_off):
            return Result(ExitCode.OK, NOTHING)
        hands = hands_for(engine, todo)
        stack.callback(hands.close)
        return carry_out(plan, todo, engine, hands, tenancy, run, command, still)


def _unused(engine: Engine, plan: Plan, fleet: FleetPlan) -> bool:
    replayed: Replayed = replay(fleet.fleet, engine.store.read(fleet.fleet))
    return plan.plan_id not in replayed.recorded.plans

"""settle: a person has looked, and says what became of an operation that no lookup could decide."""

from __future__ import annotations

from contextlib import ExitStack

from executors.clock import rfc3339
from executors.outcome import Outcome, OutcomeState
from fleetctl.engine import operate
from fleetctl.engine.apply import Engine, acquire, resumed_rollout
from fleetctl.engine.errors import NotSettled
from fleetctl.engine.events import Effect, Journal, Performed
from fleetctl.engine.recover import open_runs, stored_plan
from fleetctl.engine.rollout import Status
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.operations import By, Record
from fleetctl.ledger.replay import replay

VERDICTS = {"succeeded": OutcomeState.SUCCEEDED, "failed": OutcomeState.FAILED}


def settle(engine: Engine, operation_id: str, verdict: str, reason: str) -> Record:
    """Records the operator's word on an open operation: `verdict` is `succeeded` or `failed`, with a reason.

    `failed` means that it was not performed and will not be: recover tries it again. Raises NotSettled,
    LeaseHeld while a run is alive, StateError.
    """
    assert verdict in VERDICTS, verdict
    found = [
        run
        for run in open_runs(engine.store, engine.store.fleets()).values()
        if operation_id in {r.operation_id for r in run.unsettled}
    ]
    if not found:
        raise NotSettled(
            f"no operation with an open outcome has the id {operation_id}",
            hint="`fleetctl status` lists what is open",
        )
    run, fleet = found[0], found[0].fleet
    plan = stored_plan(engine.store, run.document)
    part = next(f for f in plan.fleets if f.fleet == fleet)
    with ExitStack() as stack:
        lease = acquire(engine, [part], run.run, "settle", stack).of(fleet)
        rollout, head = resumed_rollout(engine, plan, part, lease, run)
        state = next(s for s in rollout.steps.values() if s.record and s.record.operation_id == operation_id)
        out: list[Effect] = []
        operate.look_up(rollout, state, out, 0.0)
        said = Outcome(VERDICTS[verdict], "operator", reason, {"who": engine.holder.who})
        state.status = Status.RUNNING
        operate.on_performed(rollout, Performed(state.key, state.attempt, said, By.OPERATOR, 0.0), out)
        bodies = [body for effect in out if isinstance(effect, Journal) for body in effect.bodies]
        # Only what settles this operation; what follows from it is for recover to do.
        bodies = [b for b in bodies if b["kind"] != "operation" or b["operation_id"] == operation_id]
        context = Context(fleet, rollout.identity.lineage, run.run, lease.epoch)
        sealed = seal(bodies, context, head, rfc3339(engine.clock.now()))
        engine.store.append(fleet, head.sequence, sealed, lease.epoch)
    replayed = replay(fleet, engine.store.read(fleet)).open_run
    assert replayed is not None, "only the operation was settled"
    return replayed.attempts[operation_id]

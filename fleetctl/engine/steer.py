"""pause, resume, promote, abort: the word is written, and a run that has no process any more is taken up."""

from __future__ import annotations

from executors.clock import rfc3339
from fleetctl.engine.apply import Engine, Result
from fleetctl.engine.controls import Verb, say
from fleetctl.engine.preconditions import permitted
from fleetctl.engine.recover import open_runs, recover, stored_plan
from fleetctl.ledger.ports import LeaseHeld
from manifests.errors import ExitCode

GOES_ON = frozenset({Verb.RESUME, Verb.PROMOTE})


def steer(engine: Engine, fleet: str, verb: Verb) -> Result:
    """Tells the fleet's open run. A live one goes on by itself; for one that waits, this process carries it on.

    Raises NoOpenRun, PolicyRefused for a word to go on that a policy of its plan forbids now, and what `recover`
    raises.
    """
    if verb in GOES_ON and engine.judge is not None:
        for run in open_runs(engine.store, [fleet]).values():
            plan = stored_plan(engine.store, run.document)
            # It was approved when it began.
            permitted(engine.judge(plan, verb.value, approved=True))
    run = say(engine.store, fleet, verb, engine.holder, rfc3339(engine.clock.now()))
    told = f"run {run.run} of fleet {fleet} was told to {verb.value}"
    if verb is Verb.PAUSE and not run.waiting:
        return Result(ExitCode.OK, f"{told}; nodes under way are finished first")
    try:
        return recover(engine, (fleet,), command=verb.value)
    except LeaseHeld:
        return Result(ExitCode.OK, told)

"""pause, resume, promote, abort: the word is written, and a run that has no process any more is taken up."""

from __future__ import annotations

from executors.clock import rfc3339
from fleetctl.engine.apply import Engine, Result
from fleetctl.engine.controls import Verb, say
from fleetctl.engine.recover import recover
from fleetctl.ledger.ports import LeaseHeld
from manifests.errors import ExitCode


def steer(engine: Engine, fleet: str, verb: Verb) -> Result:
    """Tells the fleet's open run. A live one goes on by itself; for one that waits, this process carries it on.

    Raises NoOpenRun, and what `recover` raises.
    """
    run = say(engine.store, fleet, verb, engine.holder, rfc3339(engine.clock.now()))
    told = f"run {run.run} of fleet {fleet} was told to {verb.value}"
    if verb is Verb.PAUSE and not run.waiting:
        return Result(ExitCode.OK, f"{told}; nodes under way are finished first")
    try:
        return recover(engine, (fleet,), command=verb.value)
    except LeaseHeld:
        return Result(ExitCode.OK, told)

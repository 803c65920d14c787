"""When a rollout is over, and what is said of it: the exit codes of design section 5."""

from __future__ import annotations

from fleetctl.engine import revert
from fleetctl.engine.events import Effect, Finish, Journal, Report
from fleetctl.engine.rollout import Halt, Rollout, Status
from fleetctl.engine.tally import count
from fleetctl.ledger import entries
from manifests.errors import ExitCode


def conclude(rollout: Rollout, out: list[Effect], now_s: float) -> bool:
    """Ends the run when nothing is under way and nothing more may be begun; turns back first where that is asked.

    Returns whether the run has ended.
    """
    if rollout.running:
        return False
    if rollout.interrupted is not None:
        if rollout.unsettled:
            _unknown(rollout, out)
        else:
            _finish(rollout, "interrupted", rollout.interrupted, "interrupted; every outcome is known", out)
        return True
    # What a failed node has left is gone once a way back begins, so that is waited for.
    if rollout.go_on or rollout.examining or (rollout.may_begin and (rollout.begin or rollout.phases)):
        return False
    if rollout.unsettled:
        _unknown(rollout, out)
    elif rollout.paused and (rollout.halt is None or rollout.reverting):
        rollout.finished = True
        out.append(Journal((entries.control("waiting", "engine", reason=rollout.paused),)))
        out.append(Report("end", None, rollout.paused))
        out.append(Finish("paused", ExitCode.WAITING, f"{count(rollout)}; {rollout.paused}", settled=False))
    elif rollout.reverting:
        _reverted(rollout, out)
    elif rollout.halt is None and rollout.failures == 0:
        _finish(rollout, "succeeded", ExitCode.OK, "done", out)
    elif rollout.halt is None:
        allowed = f"within the {rollout.plan.rollout.max_failures} failures allowed"
        _finish(rollout, "failed", ExitCode.FAILED, allowed, out)
    elif _ends(rollout.halt, rollout.failures):
        _finish(rollout, rollout.halt.result, rollout.halt.exit_code, rollout.halt.reason, out)
    elif revert.turn_back(rollout, out, now_s):
        return False
    else:
        _failed(rollout, out)
    return True


def _ends(halt: Halt, failures: int) -> bool:
    """Whether it ends where it stands: told to, or stale without anything having failed."""
    return halt.result == "aborted" or (halt.result == "stale" and failures == 0)


def _failed(rollout: Rollout, out: list[Effect]) -> None:
    if rollout.operations == 0:
        # Nothing was touched: an artifact that is not there, a host that cannot be reached.
        reason = "" if rollout.halt is None else rollout.halt.reason
        _finish(rollout, "failed", ExitCode.ERROR, f"nothing was changed: {reason}", out)
        return
    reason = "some nodes failed" if rollout.halt is None else rollout.halt.reason
    _finish(rollout, "failed", ExitCode.FAILED, reason, out)


def _reverted(rollout: Rollout, out: list[Effect]) -> None:
    reason = "" if rollout.halt is None else rollout.halt.reason
    bad = sorted(
        s.step.node or s.step.host
        for s in rollout.steps.values()
        if s.key.startswith(revert.PREFIX) and s.status is not Status.DONE
    )
    if bad:
        told = f"the rollout failed ({reason}), and the way back failed for {', '.join(sorted(set(bad)))}"
        _finish(rollout, "failed", ExitCode.FAILED, told, out)
    else:
        _finish(rollout, "reverted", ExitCode.FAILED, f"the rollout failed and was undone: {reason}", out)


def _unknown(rollout: Rollout, out: list[Effect]) -> None:
    names = "; ".join(
        f"{s.step.node or rollout.identity.fleet} {s.step.kind.value} on {s.step.host}: {s.error}. Look there, then: fleetctl settle "
        f"{s.record.operation_id if s.record else s.key} --as succeeded|failed --reason TEXT"
        for s in rollout.unsettled.values()
    )
    rollout.finished = True
    out.append(Finish("unknown", ExitCode.UNKNOWN, f"the outcome is unknown of {names}", settled=False))


def _finish(rollout: Rollout, result: str, code: ExitCode, reason: str, out: list[Effect]) -> None:
    rollout.finished = True
    counted = rollout.told or count(rollout)
    summary = f"{counted}; {reason}" if reason != "done" else counted
    drained = sorted(n.name for n in rollout.nodes.values() if n.withdrawn and n.running and not n.gone)
    if drained:
        summary += f"; drained and not stopped: {', '.join(drained)}; the next plan restarts {'it' if len(drained) == 1 else 'them'}"
    out.append(Report("end", None, summary))
    out.append(Finish(result, code, summary))

"""The engine's own errors: UnknownOutcome (5), RunWaiting (8), NoOpenRun (1), NotSettled (1)."""

from __future__ import annotations

from manifests.errors import ExitCode, FleetctlError


class UnknownOutcome(FleetctlError):
    """An outcome is open, or a run was cut off: nothing new may begin before `fleetctl recover`."""

    code = "run.cut_off"
    exit_code = ExitCode.UNKNOWN


class RunWaiting(FleetctlError):
    """A run is paused, or waits for promotion: nothing else may begin before it has ended."""

    code = "run.waiting"
    exit_code = ExitCode.WAITING


class NoOpenRun(FleetctlError):
    """There is no run that could be paused, resumed, promoted or aborted."""

    code = "run.none"


class NotSettled(FleetctlError):
    """That operation cannot be settled by hand: it is not there, or its outcome is not open."""

    code = "operation.not_open"

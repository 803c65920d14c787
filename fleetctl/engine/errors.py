"""The engine's own errors.

FleetctlError
└── UnknownOutcome      an outcome is open, or a run was cut off          (exit 5)
"""

from __future__ import annotations

from manifests.errors import ExitCode, FleetctlError


class UnknownOutcome(FleetctlError):
    """An outcome is open, or a run was cut off: nothing new may begin before `fleetctl recover`."""

    code = "run.cut_off"
    exit_code = ExitCode.UNKNOWN

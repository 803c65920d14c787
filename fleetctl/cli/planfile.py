"""Saved plans: written whole or not at all, and read with distrust."""

from __future__ import annotations

import os
from pathlib import Path

from manifests.errors import FleetctlError
from planner.plan import Plan, encode
from planner.reading import read_plan

# 100,000 nodes make about 200 MB; a file past this is no plan.
PLAN_MAX_B = 2**30


class PlanFileError(FleetctlError):
    """The file cannot be read, or cannot be written."""

    code = "planfile.unreadable"


def write(path: Path, plan: Plan) -> None:
    """Writes a sealed plan to `path`, readable for its owner only: a plan tells much about a fleet."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode(plan))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise PlanFileError(
            f"the plan cannot be written to {path}: {error.strerror}", code="planfile.unwritable"
        ) from error


def read(path: Path) -> Plan:
    """The plan in a file. Raises PlanFileError when it cannot be read, and what `planner.reading.read_plan` raises."""
    try:
        if path.stat().st_size > PLAN_MAX_B:
            raise PlanFileError(f"{path} is too large for a plan ({PLAN_MAX_B >> 20} MiB at most)")
        data = path.read_bytes()
    except OSError as error:
        raise PlanFileError(f"the plan cannot be read from {path}: {error.strerror}") from error
    return read_plan(data, str(path))

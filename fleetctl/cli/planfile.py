"""Saved plans: written whole or not at all, and read with distrust."""

from __future__ import annotations

import os
from pathlib import Path

from manifests.errors import FleetctlError, StaleError
from planner.plan import FORMAT_VERSION, Plan, encode, sealed

# 100,000 nodes make about 200 MB; a file past this is no plan.
PLAN_MAX_B = 2**30


class PlanFileError(FleetctlError):
    """The file is not a plan that this release can read."""

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
    """The plan in a file. Raises PlanFileError for what is no plan, StaleError for one that was edited."""
    try:
        if path.stat().st_size > PLAN_MAX_B:
            raise PlanFileError(f"{path} is too large for a plan ({PLAN_MAX_B >> 20} MiB at most)")
        data = path.read_bytes()
    except OSError as error:
        raise PlanFileError(f"the plan cannot be read from {path}: {error.strerror}") from error
    return decode(data, str(path))


def decode(data: bytes, name: str) -> Plan:
    """The plan in these bytes; `name` says where they are from. Raises as `read` does."""
    import json

    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PlanFileError(
            f"{name} is not a saved plan: it is not JSON, or was cut off",
            hint="make it again: fleetctl plan --out FILE. A manifest's name ends in .yaml or .yml",
        ) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if not isinstance(version, str) or "plan_id" not in document:
        raise PlanFileError(f"{name} is not a saved plan", hint="make one: fleetctl plan --out FILE")
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise PlanFileError(
            f"{name} has the plan format {version}, and this fleetctl reads {FORMAT_VERSION}",
            hint="apply it with the release that made it, or plan again",
            code="planfile.version",
        )
    try:
        plan = Plan.model_validate_json(data)
    except ValueError as error:
        raise PlanFileError(
            f"{name} is not a plan that this fleetctl can read",
            hint="make it again: fleetctl plan --out FILE",
        ) from error
    if sealed(plan).plan_id != plan.plan_id:
        raise StaleError(
            f"{name} was changed after it was made: its contents do not have its plan id",
            hint="a plan cannot be edited; make another: fleetctl plan --out FILE",
            code="plan.edited",
        )
    return plan

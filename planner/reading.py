"""A saved plan, read with distrust: bytes become a plan, or an error that says why they do not."""

from __future__ import annotations

import json

from pydantic import ValidationError

from manifests.errors import FleetctlError, StaleError
from planner.plan import FORMAT_VERSION, Plan, encode, sealed


class PlanUnreadable(FleetctlError):
    """These bytes are not a plan that this release can read."""

    code = "plan.unreadable"


class PlanEdited(StaleError):
    """The plan was changed after it was made: its id is not the digest of its contents."""

    code = "plan.edited"


AGAIN = "make it again: fleetctl plan --out FILE"


def read_plan(data: bytes, name: str = "the file") -> Plan:
    """The plan in these bytes; `name` says in errors where they are from.

    Raises PlanUnreadable for what is cut off, no JSON, no plan, or of a newer format; PlanEdited for a
    plan whose contents, down to the order of keys and spaces, are not those that were saved.
    """
    document = _json(data, name)
    version = document.get("format_version")
    if not isinstance(version, str) or "plan_id" not in document or "fleets" not in document:
        raise PlanUnreadable(f"{name} is not a saved plan", hint="make one: fleetctl plan --out FILE")
    # Exactly this one: the bytes of another format, read and written again, would look edited.
    if version != FORMAT_VERSION:
        raise PlanUnreadable(
            f"{name} has the plan format {version}, and this fleetctl reads {FORMAT_VERSION}",
            hint="apply it with the release that made it, or plan again",
            code="plan.format",
        )
    try:
        plan = Plan.model_validate_json(data)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanUnreadable(
            f"{name} is not a plan that this fleetctl can read: {where}: {first['msg']}", hint=AGAIN
        ) from e
    genuine = sealed(plan)
    if genuine.plan_id != plan.plan_id or encode(genuine).rstrip(b"\n") != data.rstrip(b"\n"):
        raise PlanEdited(
            f"{name} was changed after it was made: its contents are not those of plan {plan.plan_id[:19]}",
            hint="a plan cannot be edited; change the manifests and make another: fleetctl plan --out FILE",
        )
    return genuine


def _json(data: bytes, name: str) -> dict[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise PlanUnreadable(
            f"{name} is not a saved plan: it is not JSON, or was cut off",
            hint=f"{AGAIN}. A manifest's name ends in .yaml or .yml",
        ) from e
    if not isinstance(document, dict):
        raise PlanUnreadable(f"{name} is not a saved plan", hint="make one: fleetctl plan --out FILE")
    return document

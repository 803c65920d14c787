"""Inspected containers -> ObservedNode. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from executors.docker import names
from executors.docker.config import fields_read_back
from planner.observed import HealthState, NodeState, ObservedNode

NEVER = "0001-01-01T00:00:00Z"

_STATES = {
    "running": NodeState.RUNNING,
    "created": NodeState.STOPPED,
    "paused": NodeState.PAUSED,
    "restarting": NodeState.RESTARTING,
    "removing": NodeState.DAMAGED,
    "dead": NodeState.DAMAGED,
    "exited": NodeState.EXITED,
}
# What has an exit status; one that the engine is about to start again has that of its last end.
_ENDED = frozenset({"exited", "dead", "restarting"})
_HEALTH = {
    "healthy": HealthState.PASSING,
    "unhealthy": HealthState.FAILING,
    "starting": HealthState.UNKNOWN,
}


def epoch_s(text: str) -> float:
    """Seconds since 1970 of a time as the engine writes it (RFC 3339, nanoseconds)."""
    return datetime.fromisoformat(text).timestamp()


def owned(inspected: Mapping[str, Any]) -> bool:
    """Whether our labels are on it."""
    return names.UID in (inspected["Config"].get("Labels") or {})


def identity(inspected: Mapping[str, Any], record: Mapping[str, str] | None) -> dict[str, str]:
    """Labels, with the record's values over them, unless the record is of an earlier container (the volume stays)."""
    labels: dict[str, str] = inspected["Config"].get("Labels") or {}
    if record is None or record.get(names.CONTAINER) != inspected["Id"]:
        return dict(labels)
    return {**labels, **record}


def instance(inspected: Mapping[str, Any]) -> str | None:
    """This very start: container id and StartedAt; None when it was never started."""
    started = inspected["State"].get("StartedAt") or NEVER
    return None if started == NEVER else f"{inspected['Id'][:12]}@{started}"


def container_health(inspected: Mapping[str, Any]) -> HealthState:
    """The engine's own verdict; NONE when the container has no health check (cases D3)."""
    health = inspected["State"].get("Health")
    status = health.get("Status") if health else None
    return HealthState.NONE if status in (None, "none", "") else _HEALTH.get(status, HealthState.UNKNOWN)


def node(
    inspected: Mapping[str, Any], record: Mapping[str, str] | None, files: Mapping[str, str | None]
) -> ObservedNode:
    """One container as an observed node.

    `files` has the managed files that were read back, by field name; None: the file is gone.
    """
    labels = identity(inspected, record)
    try:
        recorded: dict[str, str] = json.loads(labels[names.FIELDS])
        generation, epoch, attempt = (int(labels[k]) for k in (names.GENERATION, names.EPOCH, names.ATTEMPT))
        fields = fields_read_back(inspected, recorded)
    except (KeyError, ValueError, TypeError) as e:
        return _damaged(inspected, labels, f"its labels cannot be read: {e!r}")
    for name, value in files.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    state = inspected["State"]
    port = labels.get(names.PORT)
    return ObservedNode(
        uid=labels[names.UID],
        fleet=labels.get(names.FLEET, ""),
        name=labels.get(names.NODE, ""),
        lineage=labels.get(names.LINEAGE, ""),
        epoch=epoch,
        generation=generation,
        version=labels.get(names.VERSION, ""),
        digest=_digest(inspected, labels),
        fields=fields,
        state=_state(state),
        health=HealthState.UNKNOWN,
        instance=instance(inspected),
        started_at=None if (state.get("StartedAt") or NEVER) == NEVER else state["StartedAt"],
        operation=labels.get(names.OPERATION),
        attempt=attempt,
        port=int(port) if port and port.isdecimal() else None,
        address=labels.get(names.ADDRESS),
        exit_code=state.get("ExitCode") if state.get("Status") in _ENDED else None,
        detail=_detail(state),
    )


def _state(state: Mapping[str, Any]) -> NodeState:
    return _STATES.get(state.get("Status", ""), NodeState.DAMAGED)


def _digest(inspected: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The pin it was made from; when another image runs under our labels, that image's id."""
    image = str(inspected["Image"])
    return labels.get(names.DIGEST, "") if image == labels.get(names.IMAGE) else image


def _detail(state: Mapping[str, Any]) -> str:
    words = [str(state.get("Status", ""))]
    if state.get("OOMKilled"):
        words.append("killed for lack of memory")
    if state.get("Error"):
        words.append(str(state["Error"]))
    return ", ".join(w for w in words if w)


def _damaged(inspected: Mapping[str, Any], labels: Mapping[str, str], why: str) -> ObservedNode:
    return ObservedNode(
        uid=labels[names.UID],
        fleet=labels.get(names.FLEET, ""),
        name=labels.get(names.NODE, ""),
        lineage=labels.get(names.LINEAGE, ""),
        epoch=0,
        generation=0,
        version=labels.get(names.VERSION, ""),
        digest=str(inspected["Image"]),
        state=NodeState.DAMAGED,
        detail=why,
    )

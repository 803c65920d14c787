"""Decide when alarms are due and what comes next. Pure: times are arguments, jitter derives from the id.

An alarm fires at least once under a stable event id made of cell, alarm and due time, so a second firing of
the same time after a crash or takeover finds its event there and adds nothing.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from fleetctl.cellz.errors import BadShape
from fleetctl.cellz.words import NewEvent

KINDS = ("once", "interval", "cron")
_NAMESPACE = UUID("6f0e3e0b-7b62-4f0e-9d3c-0d8a2b1c5e77")
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
# Shorter periods are a busy loop in the log, not a schedule.
_EVERY_S_MIN = 0.1
_EVERY_S_MAX = 10 * 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Spec:
    """What a client asked for; times in seconds, `at` only for once, `anchor` where an interval counts from."""

    kind: str
    anchor: str
    at: str | None = None
    every_s: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    deadline_s: float | None = None
    jitter_s: float = 0.0
    event_type: str = "alarm"
    turn_id: str | None = None
    payload: Any = None

    def text(self) -> str:
        """Return the JSON text that the database keeps."""
        return orjson.dumps(self).decode()


@dataclass(frozen=True, slots=True)
class Firing:
    """What a due alarm does: an event, or none when its deadline passed; when it is due next; what it missed."""

    event: NewEvent | None
    next_at: str | None
    missed: int


def stamp(moment: datetime) -> str:
    """Return a time as the database keeps it; these compare as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def alarm_key(cell: str, next_at: str | None) -> str:
    """Return the key of a cell in the alarm index, "" when nothing is due."""
    if next_at is None:
        return ""
    return f"alarms/{int(datetime.fromisoformat(next_at).timestamp()):012d}/{cell}"


def parse_spec(data: dict[str, Any], now: datetime) -> Spec:
    """Return the spec in a request body; raises BadShape with the field and the reason."""
    kind = data.get("kind") or ("cron" if "cron" in data else "interval" if "every_s" in data else "once")
    if kind not in KINDS:
        raise BadShape(f"kind: {kind!r} is none of {', '.join(KINDS)}")
    spec = Spec(
        kind=kind,
        anchor=stamp(now),
        at=_at(data, now) if kind == "once" else None,
        every_s=_number(data, "every_s", _EVERY_S_MIN, _EVERY_S_MAX) if kind == "interval" else None,
        cron=_string(data, "cron") if kind == "cron" else None,
        timezone=_string(data, "timezone", "UTC"),
        deadline_s=None if data.get("deadline_s") is None else _number(data, "deadline_s", 0, _EVERY_S_MAX),
        jitter_s=0.0 if data.get("jitter_s") is None else _number(data, "jitter_s", 0, 86400),
        event_type=_string(data, "event_type", "alarm"),
        turn_id=None if data.get("turn_id") is None else _string(data, "turn_id"),
        payload=data.get("payload"),
    )
    if kind == "interval" and spec.every_s is None:
        raise BadShape("every_s: is missing")
    _next_nominal(spec, now)
    return spec


def alarm_id(text: object) -> str:
    """Return `text` if it can name an alarm; raises BadShape."""
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise BadShape("id: has 1 to 128 of A-Z a-z 0-9 . _ -")
    return text


def load_spec(text: str) -> Spec:
    """Return the spec that `Spec.text` wrote."""
    return Spec(**orjson.loads(text))


def first_due(alarm: str, spec: Spec, now: datetime) -> str | None:
    """Return when a new alarm is due; a `once` in the past is due at once."""
    if spec.kind == "once":
        nominal = datetime.fromisoformat(spec.at or spec.anchor)
    else:
        found = _next_nominal(spec, now)
        if found is None:
            return None
        nominal = found
    return stamp(nominal + _jitter(alarm, nominal, spec.jitter_s))


def fire(cell: str, alarm: str, spec: Spec, due_at: str, now: datetime) -> Firing:
    """Return what an alarm that was due at `due_at` does now."""
    due = datetime.fromisoformat(due_at)
    following = None if spec.kind == "once" else _next_nominal(spec, now)
    next_at = None if following is None else stamp(following + _jitter(alarm, following, spec.jitter_s))
    skipped = 0
    if spec.kind == "interval" and spec.every_s:
        skipped = max(0, int((now - due).total_seconds() / spec.every_s))
    if spec.deadline_s is not None and (now - due).total_seconds() > spec.deadline_s:
        return Firing(None, next_at, skipped + 1)
    event_id = str(uuid5(_NAMESPACE, f"{cell}/{alarm}/{due_at}"))
    payload = {
        "alarm_id": alarm,
        "fire_id": event_id,
        "scheduled_at": due_at,
        "missed": skipped,
        "payload": spec.payload,
    }
    event = NewEvent(event_id, spec.turn_id, spec.event_type, orjson.dumps(payload).decode(), stamp(now))
    return Firing(event, next_at, skipped)


def _jitter(alarm: str, nominal: datetime, jitter_s: float) -> timedelta:
    """Return a delay below `jitter_s` that every node computes alike."""
    if not jitter_s:
        return timedelta()
    digest = hashlib.sha256(f"{alarm}/{nominal.isoformat()}".encode()).digest()
    return timedelta(seconds=jitter_s * int.from_bytes(digest[:6], "big") / 2**48)


def _next_nominal(spec: Spec, now: datetime) -> datetime | None:
    """Return the first time of the schedule after `now`; None when there is none."""
    if spec.kind == "interval" and spec.every_s:
        anchor = datetime.fromisoformat(spec.anchor)
        passed = max(0, int((now - anchor).total_seconds() / spec.every_s))
        following = anchor + timedelta(seconds=spec.every_s * (passed + 1))
        return following if following > now else following + timedelta(seconds=spec.every_s)
    if spec.kind == "cron":
        from cronsim import CronSim, CronSimError

        try:
            zone = ZoneInfo(spec.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise BadShape(f"timezone: {spec.timezone!r} is not known here") from error
        try:
            return next(CronSim(spec.cron or "", now.astimezone(zone))).astimezone(UTC)
        except CronSimError as error:
            raise BadShape(f"cron: {error}") from error
        except StopIteration:
            return None
    return None


def _at(data: dict[str, Any], now: datetime) -> str:
    if data.get("after_s") is not None:
        return stamp(now + timedelta(seconds=_number(data, "after_s", 0, _EVERY_S_MAX)))
    text = _string(data, "at")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadShape(f"at: {text!r} is not an RFC 3339 time") from error
    if moment.tzinfo is None:
        raise BadShape("at: has no offset; write Z or +00:00")
    return stamp(moment)


def _number(data: dict[str, Any], name: str, low: float, high: float) -> float:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadShape(f"{name}: is not a number")
    if not low <= value <= high:
        raise BadShape(f"{name}: is not between {low:g} and {high:g}")
    return float(value)


def _string(data: dict[str, Any], name: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        raise BadShape(f"{name}: is not a text" if name in data else f"{name}: is missing")
    return value

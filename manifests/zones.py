"""Time zones by name, from the tz database of this machine (or the package `tzdata`, where there is none)."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, tzinfo

from manifests.assemble import Assembled
from manifests.diagnostics import Diagnostic, error
from manifests.errors import FleetctlError
from manifests.schema.policy import UTC as UTC_NAME
from manifests.suggest import did_you_mean


class UnknownZone(FleetctlError):
    """No time zone of that name can be found on this machine."""

    code = "zone.unknown"


def zone(name: str) -> tzinfo:
    """The zone of that name; UTC needs no database. Raises UnknownZone."""
    if name == UTC_NAME:
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as e:
        known = zoneinfo.available_timezones()
        hint = did_you_mean(name, known) if known else "install the system's tzdata"
        raise UnknownZone(
            f"no time zone is named {name!r}",
            hint=hint or "write a name of the tz database, such as Europe/Berlin",
        ) from e


def check_zones(assembled: Assembled, findings: list[Diagnostic]) -> None:
    """Reports time zones that cannot be found: a freeze that nobody can tell the time of protects nothing."""
    for policy in assembled.policies.values():
        freeze = policy.rules.freeze
        if freeze is None:
            continue
        try:
            zone(freeze.time_zone)
        except UnknownZone as e:
            path = ("rules", "freeze", "time_zone")
            findings.append(
                error(
                    e.code,
                    "A time zone is not known",
                    f"{e.message[:1].upper()}{e.message[1:]}.",
                    span=assembled.where(("Policy", policy.name), path),
                    hint=e.hint,
                    path=".".join(path),
                )
            )

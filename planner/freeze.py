"""When nothing may be changed: is a moment inside a freeze?

Wall clock times are read so that a freeze is never shorter than it was meant: where the clock is set back or
forward, it begins at the earlier reading and ends at the later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from manifests.schema.policy import Freeze, Weekly

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, as an aware time, and the time zones that are needed, by name."""

    at: datetime
    zones: Mapping[str, tzinfo]


@dataclass(frozen=True, slots=True)
class Window:
    """One time without changes: local times of its zone, and why."""

    begin: datetime
    end: datetime
    reason: str | None

    def holds(self, at: datetime) -> bool:
        """Whether the moment is inside; the end is not."""
        return min(_readings(self.begin)) <= at.astimezone(UTC) < max(_readings(self.end))


def frozen(freeze: Freeze, moment: Moment) -> Window | None:
    """The window that the moment is in, or None. Raises KeyError for a zone that was not given."""
    zone = moment.zones[freeze.time_zone]
    return next((w for w in _windows(freeze, moment.at.astimezone(zone)) if w.holds(moment.at)), None)


def _windows(freeze: Freeze, local: datetime) -> Iterator[Window]:
    """Every window that could hold at this local time."""
    zone = local.tzinfo
    for period in freeze.periods:
        begin, end = datetime.fromisoformat(period.from_), datetime.fromisoformat(period.until)
        yield Window(begin.replace(tzinfo=zone), end.replace(tzinfo=zone), period.reason)
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone)
    for weekly in freeze.weekly:
        # A window of yesterday may reach into today, and a clock that is set back into one of tomorrow.
        for day in (midnight - _DAY, midnight, midnight + _DAY):
            if DAYS[day.weekday()] in weekly.days:
                yield _of_day(weekly, day)


def _of_day(weekly: Weekly, day: datetime) -> Window:
    # Arithmetic on times of one zone is that of the wall clock, which is what is meant.
    begin, end = day + _clock(weekly.from_), day + _clock(weekly.until)
    return Window(begin, end if end > begin else end + _DAY, weekly.reason)


def _clock(text: str) -> timedelta:
    hours, _, minutes = text.partition(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


def _readings(local: datetime) -> tuple[datetime, datetime]:
    """What a wall clock time can mean: twice the same, but for the hours that are repeated or left out."""
    return local.replace(fold=0).astimezone(UTC), local.replace(fold=1).astimezone(UTC)

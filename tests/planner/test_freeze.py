"""A freeze holds for its whole time, in its own zone, and never ends early where the clock is changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.schema.policy import Freeze
from manifests.zones import zone
from planner.freeze import DAYS, Moment, frozen

BERLIN = "Europe/Berlin"


def freeze(time_zone: str = BERLIN, **values: Any) -> Freeze:
    return Freeze.model_validate({"time_zone": time_zone, **values})


def at(text: str, time_zone: str = BERLIN, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone(time_zone), fold=fold)


def holds(rule: Freeze, moment: datetime) -> bool:
    return frozen(rule, Moment(moment.astimezone(UTC), {rule.time_zone: zone(rule.time_zone)})) is not None


WINTER = freeze(periods=({"from": "2030-12-20T18:00", "until": "2031-01-03"},))
WEEKEND = freeze(weekly=({"days": ("fri",), "from": "16:00"}, {"days": ("sat", "sun")}))
NIGHT = freeze(weekly=({"days": DAYS, "from": "22:00", "until": "06:00"},))
# 2030: on 31 March the clock goes from 02:00 to 03:00, on 27 October from 03:00 back to 02:00.
SPRING = freeze(periods=({"from": "2030-03-31T02:30", "until": "2030-03-31T04:00"},))
SPRING_END = freeze(periods=({"from": "2030-03-30", "until": "2030-03-31T02:30"},))
AUTUMN = freeze(periods=({"from": "2030-10-27T02:30", "until": "2030-10-28"},))
AUTUMN_END = freeze(periods=({"from": "2030-10-26", "until": "2030-10-27T02:30"},))


@pytest.mark.parametrize(
    ("rule", "moment", "expected"),
    [
        (WINTER, at("2030-12-20T17:59:59"), False),
        (WINTER, at("2030-12-20T18:00"), True),
        (WINTER, at("2031-01-02T23:59:59"), True),
        (WINTER, at("2031-01-03"), False),
        # It is the zone of the freeze that counts: 17:30 in London is 18:30 in Berlin.
        (WINTER, at("2030-12-20T17:30", "Europe/London"), True),
        (WEEKEND, at("2030-11-29T15:59"), False),  # a Friday
        (WEEKEND, at("2030-11-29T16:00"), True),
        (WEEKEND, at("2030-11-30T00:00"), True),
        (WEEKEND, at("2030-12-01T23:59:59"), True),
        (WEEKEND, at("2030-12-02T00:00"), False),
        (NIGHT, at("2030-11-29T22:00"), True),
        (NIGHT, at("2030-11-29T05:59"), True),
        (NIGHT, at("2030-11-29T06:00"), False),
        # 02:30 does not exist: it begins at the earlier reading, 01:30 before the change …
        (SPRING, at("2030-03-31T01:30"), True),
        (SPRING, at("2030-03-31T01:29"), False),
        # … and ends at the later one, 03:30 after it.
        (SPRING_END, at("2030-03-31T03:29"), True),
        (SPRING_END, at("2030-03-31T03:30"), False),
        # 02:30 comes twice: it begins the first time, and ends the second.
        (AUTUMN, at("2030-10-27T02:30", fold=0), True),
        (AUTUMN, at("2030-10-27T02:10", fold=1), True),
        (AUTUMN, at("2030-10-27T02:10", fold=0), False),
        (AUTUMN_END, at("2030-10-27T02:29", fold=1), True),
        (AUTUMN_END, at("2030-10-27T02:45", fold=0), True),
        (AUTUMN_END, at("2030-10-27T02:30", fold=1), False),
    ],
)
def test_a_moment_is_in_a_freeze_or_not(rule: Freeze, moment: datetime, expected: bool) -> None:
    assert holds(rule, moment) is expected


ZONES = ("UTC", BERLIN, "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")
TIMES = st.datetimes(datetime.fromisoformat("2029-01-01"), datetime.fromisoformat("2033-01-01"))
CLOCKS = st.tuples(st.integers(0, 23), st.integers(0, 59)).map(lambda t: f"{t[0]:02}:{t[1]:02}")


@given(
    name=st.sampled_from(ZONES),
    begin=TIMES,
    length=st.integers(1, 60 * 24 * 40),
    offset=st.integers(-120, 120),
)
def test_a_period_holds_at_least_between_its_wall_clock_times(
    name: str, begin: datetime, length: int, offset: int
) -> None:
    """Whatever the clock says between `from` and `until` is frozen: never shorter than meant."""
    begin = begin.replace(second=0, microsecond=0)
    end = begin + timedelta(minutes=length)
    rule = freeze(name, periods=({"from": f"{begin:%Y-%m-%dT%H:%M}", "until": f"{end:%Y-%m-%dT%H:%M}"},))
    for edge in (begin, end):
        local = edge + timedelta(minutes=offset)
        if begin <= local < end:
            for fold in (0, 1):
                assert holds(rule, local.replace(tzinfo=zone(name), fold=fold))


@given(
    name=st.sampled_from(ZONES),
    moment=TIMES,
    begin=CLOCKS,
    end=CLOCKS,
    days=st.sets(st.sampled_from(DAYS), min_size=1),
)
def test_a_weekly_time_holds_by_the_wall_clock(
    name: str, moment: datetime, begin: str, end: str, days: set[str]
) -> None:
    """A time of a chosen day, or one that began on a chosen day and reaches past midnight."""
    rule = freeze(name, weekly=({"days": tuple(sorted(days)), "from": begin, "until": end},))
    local = moment.replace(tzinfo=UTC).astimezone(zone(name))
    clock, day = f"{local:%H:%M}", DAYS[local.weekday()]
    yesterday = DAYS[(local.weekday() - 1) % 7]
    if begin < end:
        inside = day in days and begin <= clock < end
    else:
        inside = (day in days and clock >= begin) or (yesterday in days and clock < end)
    if inside:
        assert holds(rule, local)
    elif local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset() and _steady(local):
        assert not holds(rule, local)


def _steady(local: datetime) -> bool:
    """Whether the clock is not changed within two days: there a window may be longer than its wall clock times."""
    instant = local.astimezone(UTC)
    offsets = {
        (instant + timedelta(hours=h)).astimezone(local.tzinfo).utcoffset() for h in (-48, -24, 0, 24, 48)
    }
    return len(offsets) == 1

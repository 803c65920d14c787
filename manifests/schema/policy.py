"""kind: Policy — rules that every plan of the fleets it names must keep, whatever their manifests want."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.schema.base import NO_TEMPLATE, Bound, DurationMs, Model, Name, Text

PATTERN = r"^[a-z0-9*]([a-z0-9*-]{0,61}[a-z0-9*])?$"
"""A name, in which `*` stands for any characters, none included."""
DATE_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2})?$"
TIME_OF_DAY = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
END_OF_DAY = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
UTC = "UTC"
NamePattern = Annotated[str, Field(pattern=PATTERN), NO_TEMPLATE]
Patterns = Annotated[tuple[NamePattern, ...], Field(min_length=1)]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
# A judgement is waited for before every plan is shown.
PROGRAM_TIMEOUT_MS = 30_000


class Period(Model):
    """One period, from its first moment to the one in which changes may begin again."""

    from_: Annotated[str, Field(alias="from", pattern=DATE_TIME), NO_TEMPLATE]
    until: Annotated[str, Field(pattern=DATE_TIME), NO_TEMPLATE]
    reason: Text | None = None


class Weekly(Model):
    """A time of some weekdays, by default the whole day. One that ends no later than it begins ends the next day."""

    days: Annotated[tuple[Weekday, ...], Field(min_length=1)]
    from_: Annotated[str, Field(alias="from", pattern=TIME_OF_DAY), NO_TEMPLATE] = "00:00"
    until: Annotated[str, Field(pattern=END_OF_DAY), NO_TEMPLATE] = "24:00"
    reason: Text | None = None


class Freeze(Model):
    """When nothing may be changed. All times are wall clock times of `time_zone`."""

    time_zone: Annotated[Text, Field(min_length=1)] = UTC
    periods: tuple[Period, ...] = ()
    weekly: tuple[Weekly, ...] = ()


class Program(Model):
    """A program that is given the plan's JSON and answers findings as JSON; it is run without a shell."""

    command: Annotated[tuple[Annotated[Text, Field(min_length=1)], ...], Field(min_length=1)]
    timeout: DurationMs = PROGRAM_TIMEOUT_MS


class Rules(Model):
    """What a plan must keep. Numbers hold for each fleet and each plan."""

    destroy_max: Annotated[int, Field(ge=0)] | None = None
    data_lost_max: Annotated[int, Field(ge=0)] | None = None
    reserve_min: Bound | None = None
    hosts: Patterns | None = None
    products: Patterns | None = None
    freeze: Freeze | None = None
    require_approval: Literal["changes", "destroys"] | None = None
    program: Program | None = None


class Policy(Model):
    """Rules for some fleets, by default for all. What several policies demand adds up: each must be kept."""

    api_version: Literal["fleetctl/v1"]
    kind: Literal["Policy"]
    name: Name
    fleets: Patterns = ("*",)
    reason: Text | None = None
    rules: Rules

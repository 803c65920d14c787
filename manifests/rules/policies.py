"""Policies: times that exist, periods that are not empty, and rules that hold for something."""

from __future__ import annotations

from datetime import datetime

from manifests.manifest import Key, Path
from manifests.names import matches
from manifests.rules.review import Review, listed
from manifests.schema.policy import Freeze, Policy

FREEZE: Path = ("rules", "freeze")


def check(review: Review) -> None:
    """Every rule about policies."""
    for policy in review.manifests.policies.values():
        key = ("Policy", policy.name)
        if not policy.rules.model_fields_set:
            review.error(
                "policy.empty",
                "A policy has no rules",
                f"{policy.name} asks for nothing.",
                key,
                ("rules",),
                "write a rule, such as `destroy_max: 0`, or remove the document",
            )
        if policy.rules.freeze is not None:
            _freeze(review, key, policy.rules.freeze)
        _scope(review, key, policy)


def _scope(review: Review, key: Key, policy: Policy) -> None:
    fleets = review.manifests.fleets
    if not fleets or "Fleet" in review.incomplete:
        return
    if not any(matches(name, policy.fleets) for name in fleets):
        review.warn(
            "policy.no-fleet",
            "A policy holds for no fleet",
            f"No fleet is named {' or '.join(policy.fleets)}; there are {listed(fleets)}.",
            key,
            ("fleets",),
        )


def _freeze(review: Review, key: Key, freeze: Freeze) -> None:
    if not freeze.periods and not freeze.weekly:
        review.error(
            "policy.freeze-empty",
            "A freeze has no times",
            "It has neither `periods` nor `weekly`.",
            key,
            FREEZE,
            "write when nothing may be changed",
        )
    for i, period in enumerate(freeze.periods):
        path: Path = (*FREEZE, "periods", i)
        begin = _moment(review, key, (*path, "from"), period.from_)
        end = _moment(review, key, (*path, "until"), period.until)
        if begin is not None and end is not None and end <= begin:
            review.error(
                "policy.period",
                "A period ends before it begins",
                f"It is from {period.from_} until {period.until}; `until` is the first moment after it.",
                key,
                (*path, "until"),
                "a period of one day is until the next day" if end == begin else "exchange the two",
            )


def _moment(review: Review, key: Key, path: Path, text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        review.error(
            "policy.date",
            "There is no such date or time",
            f"The calendar has no {text}.",
            key,
            path,
        )
        return None

"""Versions: one scheme (SemVer 2.0.0, an optional leading v), used for order and display alike.

Identity is the exact text together with the artifact's digest; order ignores build metadata. So
1.0.0+a -> 1.0.0+b is a change of the same precedence, neither a downgrade nor nothing.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import semver


class Direction(StrEnum):
    """Which way a transition goes by precedence."""

    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    SAME = "same"


@lru_cache(maxsize=4096)
def parse(text: str) -> semver.Version:
    """The version in `text`; raises ValueError for what is not SemVer (`latest`, `1.0`, `1.x`)."""
    return semver.Version.parse(text.removeprefix("v"))


def is_version(text: str) -> bool:
    """Whether `text` is a version of the one scheme."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def direction(old: str, new: str) -> Direction:
    """How `new` stands to `old` by SemVer precedence; both must be versions."""
    order = parse(old).compare(parse(new))
    if order < 0:
        return Direction.UPGRADE
    return Direction.DOWNGRADE if order > 0 else Direction.SAME

"""Names by pattern: `*` stands for any characters, none included."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether the name is one that some pattern describes."""
    return any(_compiled(pattern).fullmatch(name) is not None for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")))

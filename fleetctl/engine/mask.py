"""What a run has handed to nodes in secret is not repeated when nodes say it: in words, entries, events."""

from __future__ import annotations

import re
from collections.abc import Iterable

from manifests.secret import Secret

MASKED = "(secret)"
SHORTEST = 6
"""A shorter value would mask half of what people have to read, and is no secret worth its name."""
LINE_SHORTEST = 8
"""The same for one line of a value of several lines, such as a key's."""


class Mask:
    """Knows the values that were resolved so far. Safe for several threads: what it knows is replaced, not changed."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[Secret]) -> None:
        """These are masked from now on."""
        known = set(self._values)
        for secret in secrets:
            value = secret.reveal()
            known.add(value)
            lines = value.splitlines()
            known.update(
                line.strip() for line in lines if len(lines) > 1 and len(line.strip()) >= LINE_SHORTEST
            )
        if known == self._values:
            return
        self._values = frozenset(known)
        # The longest first: a value may hold another one.
        told = sorted((v for v in known if len(v) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, told))) if told else None

    def __call__(self, text: str) -> str:
        """The text without them."""
        pattern = self._pattern
        return text if pattern is None else pattern.sub(MASKED, text)

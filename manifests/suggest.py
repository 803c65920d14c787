"""Suggestions for misspelt words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Below this, a suggestion is more often wrong than right.
LIKENESS_MIN = 0.6


def squeezed(text: str) -> str:
    """A word without what spellings differ in: maxUnavailable, max-unavailable and max_unavailable are one."""
    return text.replace("_", "").replace("-", "").lower()


def closest(text: str, known: Iterable[str]) -> str | None:
    """The known word that is most like a text, or None."""
    plain = {squeezed(k): k for k in sorted(known)}
    close = difflib.get_close_matches(squeezed(text), plain, n=1, cutoff=LIKENESS_MIN)
    return plain[close[0]] if close else None


def did_you_mean(text: str, known: Iterable[str]) -> str | None:
    """A suggestion as a question, or None."""
    word = closest(text, known)
    return None if word is None else f"did you mean {word}?"

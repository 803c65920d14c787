"""Chance from a seed: the same question gets the same answer, whatever else was asked before, on any thread."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

_SPAN = 2**64


@dataclass(frozen=True, slots=True)
class Chance:
    """A seeded oracle. Questions are texts, so an answer depends on what is asked and not on when."""

    seed: int

    def fraction(self, question: str) -> float:
        """A number in [0, 1)."""
        return int.from_bytes(sha256(f"{self.seed}/{question}".encode()).digest()[:8]) / _SPAN

    def happens(self, rate: float, question: str) -> bool:
        """True with this rate."""
        return rate > 0 and self.fraction(question) < rate

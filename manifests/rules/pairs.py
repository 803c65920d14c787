"""Compatibility pairs: none twice, none that contradicts another."""

from __future__ import annotations

from collections import Counter

from manifests.manifest import Key, Path
from manifests.rules.review import Review
from manifests.schema.compatibility import Pair

_Place = tuple[Pair, Key, Path]
_Direction = tuple[str, str, str, tuple[tuple[str, str], ...]]
# A direction that is refused when written out is one that never happens as a way back.
_AS_REVERSE = {"rolling": "rolling", "full": "full", "refuse": "never"}


def check(review: Review) -> None:
    """Every rule about pairs, over all documents of a product."""
    pairs: dict[_Direction, _Place] = {}
    numbers: Counter[str] = Counter()
    for document in review.manifests.compatibility:
        key = ("Compatibility", f"{document.product}#{numbers[document.product]}")
        numbers[document.product] += 1
        for i, pair in enumerate(document.pairs):
            path: Path = ("pairs", i)
            if pair.from_ == pair.to:
                review.error(
                    "pair.to-itself",
                    "A pair leads from a version to itself",
                    f"{pair.from_} to {pair.to} is no transition.",
                    key,
                    (*path, "to"),
                )
                continue
            _evidence(review, pair, key, path)
            direction = (document.product, pair.from_, pair.to, _condition(pair))
            first = pairs.setdefault(direction, (pair, key, path))
            if first[0] is not pair:
                _twice(review, pair, key, path, first)
    for (product, old, new, condition), (pair, key, path) in pairs.items():
        back = pairs.get((product, new, old, condition))
        if back is not None:
            _there_and_back(review, pair, key, path, back)


def _condition(pair: Pair) -> tuple[tuple[str, str], ...]:
    """Pairs under different conditions are different pairs."""
    return () if pair.when is None else tuple(sorted(pair.when.env.items()))


def _evidence(review: Review, pair: Pair, key: Key, path: Path) -> None:
    if (pair.evidence is not None) == (pair.reverse == "evidence"):
        return
    review.error(
        "pair.evidence",
        "Evidence and `reverse: evidence` belong together",
        f"{pair.from_} to {pair.to} says `reverse: {pair.reverse}` "
        + ("and has evidence that nobody would ask for." if pair.evidence else "and not what decides."),
        key,
        (*path, "evidence" if pair.evidence else "reverse"),
        "write `reverse: evidence` with `evidence: {log: …}`, or neither",
    )


def _twice(review: Review, pair: Pair, key: Key, path: Path, first: _Place) -> None:
    other, other_key, other_path = first
    same = (pair.mode, pair.reverse) == (other.mode, other.reverse)
    review.error(
        "pair.duplicate" if same else "pair.contradiction",
        "A pair is written twice" if same else "Two pairs contradict each other",
        f"{pair.from_} to {pair.to} is {pair.mode} (reverse {pair.reverse}) here, and {other.mode} "
        f"(reverse {other.reverse}) at {review.place(other_key, other_path)}.",
        key,
        path,
        "remove one",
    )


def _there_and_back(review: Review, pair: Pair, key: Key, path: Path, back: _Place) -> None:
    """A written `reverse` and the pair that is written out in that direction must say the same."""
    other, other_key, other_path = back
    if "reverse" not in pair.model_fields_set or pair.reverse == _AS_REVERSE[other.mode]:
        return
    review.error(
        "pair.contradiction",
        "Two pairs contradict each other",
        f"The way back from {pair.to} to {pair.from_} is {pair.reverse} here, and the pair written out at "
        f"{review.place(other_key, other_path)} says {other.mode}.",
        key,
        (*path, "reverse"),
        "remove `reverse` here, or the other pair",
    )

"""Bounds: a number of nodes, or a percentage of them. Percentages round down."""

from __future__ import annotations


def resolve(bound: int | str, count: int) -> int:
    """The whole number of nodes that a bound means for `count` nodes; never more than there are."""
    if isinstance(bound, int):
        return min(bound, count)
    return count * int(bound.removesuffix("%")) // 100

"""Decide whether small writes may run on the event loop: while the disk answers fast, and not otherwise. Pure.

A write that stalled for a while sends all writes to the threads for twenty times as long, so that a slow disk
takes at most a twentieth of the loop's time.
"""

from __future__ import annotations

# A commit into the page cache takes well under a millisecond; this long, it waited for the disk.
STALL_S = 0.05
# The share of the loop's time that stalls may take, as its inverse.
_REST = 20


class Pace:
    """What the last writes on the loop tell of the disk; times are monotonic seconds."""

    __slots__ = ("_rest_until",)

    def __init__(self) -> None:
        self._rest_until = 0.0

    def quick(self, now: float) -> bool:
        """Return whether a small write may run on the loop now."""
        return now >= self._rest_until

    def took(self, began: float, ended: float) -> None:
        """Take note of a write on the loop."""
        if ended - began > STALL_S:
            self._rest_until = ended + (ended - began) * _REST

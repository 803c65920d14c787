"""Decide where a reader of the log stands, and what it is told when its place no longer exists. Pure.

Ids on the wire are bare sequences, which a restore gives out again. A reader that also names its branch is
placed exactly; one that does not can still be caught when its id is beyond the log or compacted away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Log:
    """What a reader can know of the log: `cuts` has, for every branch that ended, where it was cut."""

    compacted: int
    last: int
    branch: int
    cuts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Reset:
    """The reader's place is gone: it must forget what is after `resume_from`, from where the stream goes on."""

    reason: str
    since: int
    resume_from: int
    branch: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """A reader's place: the last sequence it has, and how many restores of this feed it has followed."""

    position: int
    cuts_seen: int = 0


def place(since: int | None, branch: int | None, log: Log) -> tuple[Cursor, Reset | None]:
    """Return the cursor for a request, and the reset it must be told of first, if any."""
    if since is None:
        return Cursor(log.last), None
    reset = _reset(since, branch, log)
    return Cursor(reset.resume_from if reset else since), reset


def _reset(since: int, branch: int | None, log: Log) -> Reset | None:
    if branch is not None and branch != log.branch:
        ended = [target for number, target in log.cuts.items() if number >= branch]
        if branch > log.branch or branch < 0 or not ended:
            return Reset("unknown_branch", since, log.compacted, log.branch)
        shared = min(ended)
        if since > shared:
            return Reset("stale_branch", since, max(shared, log.compacted), log.branch)
    if since > log.last:
        return Reset("beyond_log", since, log.compacted, log.branch)
    if since < log.compacted:
        return Reset("compacted", since, log.compacted, log.branch)
    return None


def follow(cursor: Cursor, cuts: Sequence[int]) -> Cursor:
    """Return the cursor after the restores it has not followed yet.

    What it has beyond a cut is gone; `rewound` is the first event it gets from there, and tells it so.
    """
    fresh = cuts[cursor.cuts_seen :]
    if not fresh:
        return cursor
    return Cursor(min(cursor.position, *fresh), len(cuts))


def on_page(
    cursor: Cursor, page_branch: int, last: int | None, feed_branch: int, cuts: int
) -> tuple[Cursor, bool]:
    """Return the cursor after a page of the log, and whether the page may be sent.

    A page read on the other side of a restore that the reader has not followed belongs to another branch
    than its place: it is thrown away and read again.
    """
    if page_branch != feed_branch or cursor.cuts_seen != cuts:
        return cursor, False
    return (cursor if last is None else replace(cursor, position=last)), True

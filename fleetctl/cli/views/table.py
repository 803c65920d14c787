"""Plain aligned columns, and spans of time as people say them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime


def render(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Lines of left-aligned columns under a header in capitals; the last column is as wide as it is."""
    table = [[h.upper() for h in header], *[list(r) for r in rows]]
    widths = [max(len(row[n]) for row in table) for n in range(len(header))]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def span(seconds: float) -> str:
    """`0.4s`, `12s`, `3m12s`, `2h05m`, `4d03h`."""
    if seconds < 0:
        return "0s"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def since(moment: str | None, now: datetime) -> str:
    """The span from an RFC 3339 moment to now; `-` when there is none or it cannot be read."""
    if moment is None:
        return "-"
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return "-"
    return span((now - then).total_seconds())

"""The benchmark's table: what was measured, beside what it is compared with, and the bound that was promised."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Table:
    """Rows of (what, measured, beside, bound, kept?)."""

    rows: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self, what: str, measured: str, beside: str = "", bound: str = "", kept: bool | None = None
    ) -> None:
        """One row; `kept` None where nothing was promised."""
        mark = "" if kept is None else "kept" if kept else "BROKEN"
        self.rows.append((what, measured, beside, bound, mark))

    def note(self, text: str) -> None:
        self.notes.append(text)

    @property
    def broken(self) -> bool:
        return any(row[-1] == "BROKEN" for row in self.rows)

    def __str__(self) -> str:
        header = ("what", "measured", "beside", "promised", "")
        rows = [header, *self.rows]
        widths = [max(len(r[n]) for r in rows) for n in range(len(header))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join([*lines, "", *self.notes])

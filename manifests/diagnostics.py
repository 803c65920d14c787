"""An error or a warning as a value: what, where, why it matters, what to write instead.

The summary is constant wording for a kind of finding (so that people can search for it); the detail
names the offending value and says why it matters; the hint says what to write instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding weighs: an error stops, a warning is printed, a note tells what will be."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a text: 1-based line and column of the start; the end is exclusive and may equal it."""

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable (`yaml.duplicate-key`); `path` is the key path inside the document."""

    severity: Severity
    code: str
    summary: str
    detail: str = ""
    span: Span | None = None
    hint: str | None = None
    path: str = ""

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


def error(
    code: str,
    summary: str,
    detail: str = "",
    *,
    span: Span | None = None,
    hint: str | None = None,
    path: str = "",
) -> Diagnostic:
    """An error as a value."""
    return Diagnostic(Severity.ERROR, code, summary, detail, span, hint, path)


def warning(
    code: str,
    summary: str,
    detail: str = "",
    *,
    span: Span | None = None,
    hint: str | None = None,
    path: str = "",
) -> Diagnostic:
    """A warning as a value."""
    return Diagnostic(Severity.WARNING, code, summary, detail, span, hint, path)

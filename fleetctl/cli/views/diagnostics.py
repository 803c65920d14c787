"""Errors and warnings for people: what, where with the line itself, why it matters, what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line
from manifests.diagnostics import Diagnostic, Span
from manifests.errors import FleetctlError, ManifestError, PolicyRefused

# A line longer than this is cut around the place: a minified file must not fill the screen.
SNIPPET_COLUMNS_MAX = 140
# Findings past this are counted only: the first hundred say what is wrong.
SHOWN_MAX = 100


def render_error(error: FleetctlError, paint: Paint = PLAIN) -> str:
    """An error that ends the command, with its hint; one that has findings with all of them."""
    if isinstance(error, (ManifestError, PolicyRefused)):
        return render_diagnostics(error.diagnostics, paint)
    text = f"{paint('red bold', 'Error:')} {clean(error.message)}"
    if error.hint:
        text += f"\n{paint('cyan', 'Hint:')} {clean(error.hint)}"
    return text


def render_diagnostics(
    diagnostics: Iterable[Diagnostic], paint: Paint = PLAIN, sources: dict[str, list[str]] | None = None
) -> str:
    """All findings, errors first, each with its snippet, and a closing count."""
    found = sorted(diagnostics, key=lambda d: not d.is_error)
    sources = {} if sources is None else sources
    blocks = [render_diagnostic(d, paint, sources) for d in found[:SHOWN_MAX]]
    if len(found) > SHOWN_MAX:
        blocks.append(f"… and {len(found) - SHOWN_MAX} more.")
    errors = sum(d.is_error for d in found)
    if errors > 1:
        blocks.append(paint("red bold", f"{errors} errors."))
    return "\n\n".join(blocks)


def render_diagnostic(
    diagnostic: Diagnostic, paint: Paint = PLAIN, sources: dict[str, list[str]] | None = None
) -> str:
    """One finding. `sources` remembers the lines of files that were read for snippets."""
    word, style = ("Error:", "red bold") if diagnostic.is_error else ("Warning:", "yellow bold")
    lines = [f"{paint(style, word)} {paint('bold', clean(diagnostic.summary))}"]
    if diagnostic.span is not None:
        at = f" ({diagnostic.path})" if diagnostic.path else ""
        lines.append(f"  at {one_line(str(diagnostic.span))}{clean(at)}")
        lines += _snippet(diagnostic.span, paint, {} if sources is None else sources)
    if diagnostic.detail:
        lines += ["  " + line for line in clean(diagnostic.detail).splitlines()]
    if diagnostic.hint:
        lines.append(f"  {paint('cyan', 'Hint:')} {clean(diagnostic.hint)}")
    return "\n".join(lines)


def _snippet(span: Span, paint: Paint, sources: dict[str, list[str]]) -> list[str]:
    """The line with a caret under the place; nothing when the file cannot be read any more."""
    if span.file not in sources:
        try:
            sources[span.file] = Path(span.file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            sources[span.file] = []
    source = sources[span.file]
    if not 1 <= span.line <= len(source):
        return []
    text = clean(source[span.line - 1].replace("\t", " "))
    column = min(span.column, len(text) + 1)
    width = span.end_column - span.column if span.end_line == span.line else 1
    start = 0
    if len(text) > SNIPPET_COLUMNS_MAX:
        start = max(0, column - 1 - SNIPPET_COLUMNS_MAX // 2)
        text = text[start : start + SNIPPET_COLUMNS_MAX]
    width = max(1, min(width, len(text) - (column - 1 - start)))
    number = str(span.line)
    gutter = " " * len(number)
    return [
        f"  {number} | {text}",
        f"  {gutter} | {' ' * (column - 1 - start)}{paint('red bold', '^' * width)}",
    ]

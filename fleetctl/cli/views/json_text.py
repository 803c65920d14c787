"""Values as JSON documents for machines, each with its format_version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from manifests.diagnostics import Diagnostic

FORMAT_VERSION = "1.0"


def render(document: object, *, one_line: bool = False) -> str:
    """JSON text, keys in the order given."""
    return json.dumps(document, indent=None if one_line else 2, ensure_ascii=False)


def diagnostics_document(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """`{format_version, valid, error_count, warning_count, diagnostics}`: what `validate --format json` prints."""
    found = list(diagnostics)
    errors = sum(d.is_error for d in found)
    return {
        "format_version": FORMAT_VERSION,
        "valid": errors == 0,
        "error_count": errors,
        "warning_count": len(found) - errors,
        "diagnostics": [_diagnostic(d) for d in found],
    }


def _diagnostic(d: Diagnostic) -> dict[str, Any]:
    out: dict[str, Any] = {
        "severity": d.severity.value,
        "code": d.code,
        "summary": d.summary,
        "detail": d.detail,
        "hint": d.hint,
        "path": d.path,
        "range": None,
    }
    if d.span is not None:
        s = d.span
        out["range"] = {
            "filename": s.file,
            "start": {"line": s.line, "column": s.column},
            "end": {"line": s.end_line or s.line, "column": s.end_column or s.column},
        }
    return out

"""A review as SARIF 2.1.0 (OASIS), for code scanning: one result for each finding and remark, with its place."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from fleetctl.cli.terminal import clean
from fleetctl.cli.views.located import from_top
from fleetctl.version import __version__
from manifests.diagnostics import Diagnostic, Severity
from manifests.digest import sha256

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# GitHub takes 25,000 results of a run and shows 5,000.
RESULTS_MAX = 5_000
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_ROOT = "%SRCROOT%"


def render(found: Iterable[Diagnostic], top: str) -> str:
    """The log with one run. A result without a place is one about the manifests as a whole."""
    results = list(found)[:RESULTS_MAX]
    rules: dict[str, dict[str, Any]] = {}
    for result in results:
        rules.setdefault(result.code, _rule(result))
    index = {code: n for n, code in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "fleetctl", "version": __version__, "rules": list(rules.values())}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(r, index[r.code], top) for r in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(first: Diagnostic) -> dict[str, Any]:
    return {
        "id": first.code,
        "shortDescription": {"text": clean(first.summary) or first.code},
        "defaultConfiguration": {"level": _LEVELS[first.severity]},
    }


def _result(found: Diagnostic, rule: int, top: str) -> dict[str, Any]:
    text = clean(found.detail) or clean(found.summary) or found.code
    if found.hint:
        text += f"\nHint: {clean(found.hint)}"
    result: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": rule,
        "level": _LEVELS[found.severity],
        "message": {"text": text},
    }
    path = from_top(found.span, top)
    if found.span is not None and path is not None:
        region = {"startLine": found.span.line, "startColumn": found.span.column}
        if found.span.end_line >= found.span.line:
            region |= {"endLine": found.span.end_line, "endColumn": max(1, found.span.end_column)}
        place = {"uri": quote(path, errors="replace"), "uriBaseId": _ROOT}
        result["locations"] = [{"physicalLocation": {"artifactLocation": place, "region": region}}]
    # Stays the same while the line moves, so that an alert is followed, not opened again.
    key = "\0".join((found.code, path or "", found.detail))
    digest = sha256(key.encode("utf-8", "surrogatepass")).removeprefix("sha256:")
    result["partialFingerprints"] = {"fleetctl/v1": digest}
    return result

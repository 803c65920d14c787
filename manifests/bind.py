"""Values -> documents: the schema is asked, and what it refuses becomes findings with places.

Nothing that pydantic says reaches the reader: `manifests.wording` has the words.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from manifests import wording
from manifests.diagnostics import Diagnostic, error
from manifests.expansion import span_of
from manifests.manifest import Path
from manifests.schema.base import API_VERSION
from manifests.schema.kinds import KINDS, Kind, models_at
from manifests.source import Document
from manifests.suggest import did_you_mean
from manifests.tree import BROKEN, Broken, Rendered, entry, locate

_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,14}")
_TRUTH = {"true": True, "false": False}
_WANTS_NUMBER = {"int_type", "bool_type", "bound"}


def kind_of(document: Document, value: dict[str, Any], findings: list[Diagnostic]) -> str | None:
    """The kind that a document says it is, or None and a finding."""
    kind = value.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    pair = entry(document.root, "kind")
    if pair is None:
        found = error(
            "manifest.kind",
            "A document does not say its kind",
            f"Every document has `kind:`, one of {', '.join(KINDS)}.",
            span=span_of(document.root),
            hint=f"begin with `api_version: {API_VERSION}` and `kind:`",
        )
    elif isinstance(kind, Broken):
        return None
    else:
        text = getattr(pair[1], "value", "")
        shown = text if isinstance(text, str) else "this"
        found = error(
            "manifest.kind",
            "A document's kind is not known",
            f"{shown!r} is none of {', '.join(KINDS)}.",
            span=span_of(pair[1]),
            hint=did_you_mean(shown, KINDS),
        )
    findings.append(found)
    return None


def bind(document: Document, kind: str, value: dict[str, Any], findings: list[Diagnostic]) -> Kind | None:
    """The document as a model, or None and every finding about it."""
    model = KINDS[kind]
    try:
        return model.model_validate(value)
    except ValidationError as e:
        details = e.errors(include_url=False)
    if _retype(value, details):
        try:
            return model.model_validate(value)
        except ValidationError as e:
            details = e.errors(include_url=False)
    for detail in details:
        if detail["input"] is not BROKEN and not _follows(detail):
            findings.append(_finding(document, kind, detail))
    return None


def path_of(loc: tuple[str | int, ...]) -> tuple[Path, bool]:
    """The key path in pydantic's location, and whether the key itself is meant."""
    steps = tuple(s for s in loc if not (isinstance(s, str) and s.startswith("<")))
    if steps and steps[-1] == "[key]":
        return steps[:-1], True
    return steps, False


def _follows(detail: ErrorDetails) -> bool:
    """Whether a list only seems too short because items of it were refused, which is said already."""
    value = detail["input"]
    if detail["type"] != "too_short" or not isinstance(value, (tuple, dict)):
        return False
    return len(value) >= int(detail["ctx"]["min_length"])


def _retype(value: Any, details: list[ErrorDetails]) -> bool:
    """Puts numbers and truth values where a template rendered to one; whether anything changed."""
    changed = False
    for detail in details:
        rendered = detail["input"]
        if type(rendered) is not Rendered or detail["type"] not in _WANTS_NUMBER:
            continue
        new: Any = None
        if detail["type"] == "bool_type":
            new = _TRUTH.get(rendered)
        elif _DECIMAL.fullmatch(rendered):
            new = int(rendered)
        if new is not None:
            changed |= _put(value, path_of(detail["loc"])[0], new)
    return changed


def _put(value: Any, path: Path, new: Any) -> bool:
    """Replaces one value; mappings are ours and are changed in place, lists are rebuilt on the way."""
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        if not rest:
            value[step] = new
            return True
        below = value[step]
        if isinstance(below, tuple) and len(rest) == 1 and isinstance(rest[0], int):
            value[step] = (*below[: rest[0]], new, *below[rest[0] + 1 :])
            return True
        return _put(below, rest, new)
    if isinstance(value, tuple) and isinstance(step, int) and rest:
        return _put(value[step], rest, new)
    return False


def _finding(document: Document, kind: str, detail: ErrorDetails) -> Diagnostic:
    path, is_key = path_of(detail["loc"])
    node, key, found = locate(document.root, path)
    kind_of_error = detail["type"]
    if kind_of_error == "missing":
        span = span_of(key if key is not None and found == len(path) - 1 else node)
    elif (kind_of_error == "extra_forbidden" or is_key) and key is not None:
        span = span_of(key)
    else:
        span = span_of(node)
    parents = models_at(KINDS[kind], path[:-1]) if path else ()
    words = wording.words(detail, path, is_key, parents, KINDS[kind])
    return error(
        words.code, words.summary, words.detail, span=span, hint=words.hint, path=".".join(map(str, path))
    )

"""Expressions of GitHub's workflows, as far as ours go: names in `${{ }}`, and conditions of `==`, `!=` and `&&`.

Stricter than GitHub, which takes a name that does not exist for an empty one: here it fails, and so does whatever a
file uses beyond this, so that it does not grow what no test runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
TERM = re.compile(r"([\w.-]+) (==|!=) '([^']*)'")
# Of the events' payloads what may be asked for, whatever the event: what one does not have is empty in it.
EVENT = {
    "action": "",
    "after": "",
    "before": "",
    "number": "",
    "pull_request": {"number": "", "base": {"ref": "", "sha": ""}, "head": {"ref": "", "sha": ""}},
    "ref": "",
}


def filled(text: str, contexts: Mapping[str, Any]) -> str:
    """A text with its expressions looked up."""
    out = EXPRESSION.sub(lambda match: looked_up(match[1], contexts), text)
    assert "${{" not in out, f"an expression that this runner does not know: {text}"
    return out


def filled_all(values: Mapping[str, Any], contexts: Mapping[str, Any]) -> dict[str, str]:
    """A mapping with the expressions of its values looked up."""
    return {name: filled(str(value), contexts) for name, value in values.items()}


def holds(condition: str, contexts: Mapping[str, Any]) -> bool:
    """Whether a condition holds. As GitHub does it, case is no difference."""
    terms = [TERM.fullmatch(part.strip()) for part in condition.split("&&")]
    assert all(terms), f"a condition that this runner does not know: {condition}"
    found = [(looked_up(t[1], contexts).lower() == t[3].lower(), t[2] == "==") for t in terms if t]
    return all(same == wanted for same, wanted in found)


def looked_up(name: str, contexts: Mapping[str, Any]) -> str:
    """The value of a dotted name, which must exist here."""
    value: Any = contexts
    for part in name.split("."):
        assert isinstance(value, Mapping) and part in value, f"there is no {name} here"
        value = value[part]
    assert not isinstance(value, Mapping), f"{name} is no text"
    return str(value)


def event_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload among the fields that there may be."""
    return merged(EVENT, payload)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two mappings as one, level by level; `above` goes first."""
    out = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], Mapping) and isinstance(above[name], Mapping):
            out[name] = merged(below[name], above[name])
    return out

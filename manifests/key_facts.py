"""What the schema says of a key, in words: what may be written there, and what holds when it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from manifests.digest import DIGEST_PATTERN
from manifests.schema.base import LABEL_PATTERN, REFERENCE_PATTERN
from manifests.schema.kinds import KINDS, inner, keys, models

_DURATION = "(ms|s|m|h|d)$"
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_SIZE = "(B|KiB"
_UNITS_B = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_MANY = {"a mapping": "mappings", "text": "texts", "text, a template": "texts, each a template"}
_TEMPLATE = "rendered per node"
# By a part of the schema's pattern, the first that is found.
_FORMS = (
    (_DURATION, "a duration, such as 500ms, 10s, 5m, 2h or 1d"),
    (_SIZE, "a size, such as 512MiB, 2GiB or 10GB"),
    ("%$", "a percentage, from 0% to 100%"),
    (DIGEST_PATTERN, "sha256: and 64 lower-case hex digits"),
    (
        REFERENCE_PATTERN,
        "where a secret is found: env:NAME, file:PATH, command:ARGV, aws-sm:ID or aws-ssm:NAME",
    ),
)


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """One key: what it takes, whether it must be there, what holds without it (None: nothing), and the keys below it."""

    takes: str
    required: bool
    default: str | None
    below: tuple[str, ...]


def facts(kind: str, steps: tuple[str, ...]) -> KeyFacts:
    """What the schema says of a key.

    Arguments: a kind's name, and keys without list places and free names, as `manifests.explain.documented` has
    them; with no key, the kind itself.
    """
    found: list[type[BaseModel]] = [KINDS[kind]]
    parent, key = None, ""
    for key in steps:
        parent = next(model for model in found if key in keys(model))
        found = _behind(keys(parent)[key])
    below = tuple(dict.fromkeys(key for model in found for key in keys(model)))
    if parent is None:
        return KeyFacts("a document", required=False, default=None, below=below)
    schema = parent.model_json_schema(by_alias=True)
    described = schema["properties"][key]
    required = key in schema.get("required", ())
    return KeyFacts(_takes(described), required, None if required else _default(described), below)


def _behind(annotation: Any) -> list[type[BaseModel]]:
    """The models of a type, and of what its lists and mappings hold."""
    into = inner(annotation)
    return [*models(annotation), *([] if into is None else _behind(into[1]))]


def _takes(schema: Mapping[str, Any]) -> str:
    for several in ("anyOf", "oneOf"):
        if several in schema:
            forms = [_takes(one) for one in schema[several] if one.get("type") != "null"]
            return ", or ".join(dict.fromkeys(forms))
    if "$ref" in schema or "allOf" in schema:
        return "a mapping"
    if "const" in schema:
        return f"always {schema['const']}"
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    match schema.get("type"):
        case "integer":
            return "a whole number" + _range(schema)
        case "boolean":
            return "true or false"
        case "array":
            item = _takes(schema.get("items", {}))
            return f"a list of {_MANY[item]}" if item in _MANY else f"a list, each {item}"
        case "object":
            (values,) = schema.get("patternProperties", {"": schema.get("additionalProperties")}).values()
            return f"names, each with {_takes(values)}"
    return _text(schema)


def _text(schema: Mapping[str, Any]) -> str:
    pattern = schema.get("pattern", "")
    form = next((words for part, words in _FORMS if part in pattern), None)
    if form is None and pattern == rf"^{LABEL_PATTERN}$":
        form = "a label"
    described = schema.get("description", "")
    if _TEMPLATE in described:
        return "text, a template"
    return form or (f"text: {described}" if described else "text")


def _range(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    return ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")


def _default(schema: Mapping[str, Any]) -> str | None:
    """The default as it would be written; None for nothing, and for a mapping, whose keys say it."""
    value = schema.get("default")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and _DURATION in str(schema):
        return _in_units(value, _UNITS_MS, "ms") if value else "0s"
    if isinstance(value, int) and _SIZE in str(schema):
        return _in_units(value, _UNITS_B, "B")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(str, value))}]" if value else None
    return None if value is None or isinstance(value, dict) or value == "" else str(value)


def _in_units(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    """A number in the largest unit that leaves no fraction."""
    return next(
        (f"{value // scale}{unit}" for unit, scale in units if value % scale == 0), f"{value}{smallest}"
    )

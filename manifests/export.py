"""JSON Schema of the manifests, for editors: one schema, the kind decides which of them applies."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from manifests.schema.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DESCRIPTION = (
    "One document of a fleetctl manifest. A file may hold several, with a line `---` between them; editors "
    "check each by itself. What spans documents is checked by `fleetctl validate`."
)
TEMPLATE = {"type": "string", "pattern": r"\{[{%]"}
# Where a schema holds schemas, apart from properties by name.
_NESTED = frozenset({"items", "anyOf", "oneOf", "allOf", "additionalProperties", "prefixItems"})


def json_schema() -> dict[str, Any]:
    """The schema as a JSON value: `oneOf` the kinds, told apart by the constant in `kind`.

    It describes what is written: durations, sizes and percentages are texts with their units.
    """
    refs, shared = models_json_schema(
        [(model, "validation") for model in KINDS.values()], by_alias=True, ref_template="#/$defs/{model}"
    )
    return {
        "$schema": DIALECT,
        "title": "fleetctl manifest",
        "description": DESCRIPTION,
        "oneOf": [refs[model, "validation"] for model in KINDS.values()],
        "$defs": {name: _or_template(schema) for name, schema in shared["$defs"].items()},
    }


def _or_template(schema: Any) -> Any:
    """The same schema, which also takes a template where a form is asked for: `count: "{{ vars.n }}"`."""
    if isinstance(schema, list):
        return [_or_template(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _or_template(value) if key in _NESTED else value for key, value in schema.items()}
    if "oneOf" in inner:
        # A template fits each of several forms.
        inner["anyOf"] = inner.pop("oneOf")
    for key in ("properties", "patternProperties"):
        if key in schema:
            inner[key] = {name: _or_template(value) for name, value in schema[key].items()}
    if schema.get("type") in ("integer", "boolean") or (
        "type" in schema and {"pattern", "enum"} & schema.keys()
    ):
        shown = {key: inner.pop(key) for key in ("title", "description", "default") if key in inner}
        return {**shown, "anyOf": [inner, TEMPLATE]}
    return inner

"""JSON Schema of the manifests, for editors: one schema, the kind decides which of the four applies."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from manifests.schema.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DESCRIPTION = (
    "One document of a fleetctl manifest. A file may hold several, with a line `---` between them; editors "
    "check each by itself. What spans documents is checked by `fleetctl validate`."
)


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
        "$defs": shared["$defs"],
    }

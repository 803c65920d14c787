"""Writes what docs/reference says of events, from their table: python -m tests.cli.write_events"""

from __future__ import annotations

import json
from pathlib import Path

from fleetctl.cli.views.event_types import EVENTS, Field, schema

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGE, SCHEMA = REFERENCE / "events.md", REFERENCE / "events.schema.json"
BEGIN, END = "<!-- from the table of events -->\n", "<!-- end -->\n"
_KINDS = {
    "text": "string",
    "whole": "integer",
    "number": "number",
    "yes": "boolean",
    "texts": "array of strings",
    "objects": "array of objects",
    "object": "object",
    "whole?": "integer or null",
}


def tables() -> str:
    """One section for each type."""
    blocks = []
    for event in EVENTS:
        lines = [f"### `{event.name}`", "", event.words, "", "| field | type | meaning |", "|---|---|---|"]
        blocks.append("\n".join([*lines, *(_row(f) for f in event.fields)]))
    return "\n" + "\n\n".join(blocks) + "\n\n"


def _row(field: Field) -> str:
    kind = _KINDS[field.kind] + (", may be absent" if field.optional else "")
    return f"| `{field.name}` | {kind} | {field.words}{' *(remote)*' if field.remote else ''} |"


def page(before: str) -> str:
    """The page with its tables as they should be."""
    head, _, rest = before.partition(BEGIN)
    return head + BEGIN + tables() + END + rest.partition(END)[2]


def schema_text() -> str:
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    print(f"wrote {PAGE} and {SCHEMA}")

"""Writes docs/reference/review.schema.json from the review's document: python -m tests.cli.write_review_schema"""

from __future__ import annotations

import json
from pathlib import Path

from fleetctl.cli.views.review_document import schema

if __name__ == "__main__":
    target = Path(__file__).parents[2] / "docs" / "reference" / "review.schema.json"
    target.write_text(json.dumps(schema(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {target}")

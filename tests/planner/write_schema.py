"""Writes docs/reference/plan.schema.json from the plan's model: python -m tests.planner.write_schema"""

from __future__ import annotations

import json
from pathlib import Path

from tests.planner.test_encoding import schema

if __name__ == "__main__":
    target = Path(__file__).parents[2] / "docs" / "reference" / "plan.schema.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(schema(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {target}")

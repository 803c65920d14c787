"""Writes docs/reference/error-codes.md anew: python -m tests.docs.write_error_codes."""

from __future__ import annotations

from tests.docs.error_codes import page
from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "reference" / "error-codes.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

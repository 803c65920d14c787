"""Structured logs: one JSON object a line on stderr, with facts and never a payload."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            line |= facts
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure(level: str) -> None:
    """Send every logger's lines of `level` and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

"""What an engine says while it pulls, in a few words: how much of the layers is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from executors.driver import Tell

_MB = 10**6


@dataclass
class Progress:
    """Adds up the layers of one pull, and tells when the words change."""

    tell: Tell
    here: dict[str, int] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    told: str = ""

    def hear(self, line: Mapping[str, Any]) -> None:
        """Takes one line of the engine's stream."""
        layer, status = str(line.get("id", "")), str(line.get("status", ""))
        detail = line.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self.here[layer], self.whole[layer] = int(detail.get("current", 0)), int(detail["total"])
        elif status in ("Download complete", "Pull complete") and layer in self.whole:
            self.here[layer] = self.whole[layer]
        if self.whole:
            text = f"{sum(self.here.values()) // _MB} of {sum(self.whole.values()) // _MB} MB"
        else:
            text = status.lower()
        if text and text != self.told:
            self.told = text
            self.tell(text)

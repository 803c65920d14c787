"""Everything that is known when one fleet is planned, and what was found wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from manifests.diagnostics import Diagnostic
from manifests.manifest import Key, Manifests, Path
from manifests.schema.fleet import Fleet
from planner.options import Options
from planner.plan import Refusal
from planner.recorded import Recorded
from planner.sight import Places, Sight


@dataclass(frozen=True, slots=True)
class Situation:
    """One fleet: wanted, recorded and seen. `taken` has the ports given out so far, on every host."""

    fleet: Fleet
    manifests: Manifests
    recorded: Recorded
    sight: Sight
    places: Places
    options: Options
    secrets: Mapping[str, str]
    taken: dict[tuple[str, int], str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.fleet.name

    @property
    def key(self) -> Key:
        """The fleet document's identity."""
        return ("Fleet", self.fleet.name)

    def place(self, *path: str | int) -> str | None:
        """Where a value of the fleet's document was written, as file:line:column."""
        return self.place_in(self.key, path)

    def place_in(self, key: Key, path: Path) -> str | None:
        """Where a value of any document was written."""
        span = self.manifests.where(key, path)
        return None if span is None else str(span)


@dataclass(slots=True)
class Findings:
    """Errors of the manifests, refusals of the plan, and warnings, in the order in which they were found."""

    errors: list[Diagnostic] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(
        self, code: str, summary: str, detail: str, *, place: str | None = None, hint: str | None = None
    ) -> None:
        """Adds a refusal, once."""
        refusal = Refusal(code=code, detail=detail, hint=hint, place=place, summary=summary)
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    def warn(self, text: str) -> None:
        """Adds a warning, once."""
        if text not in self.warnings:
            self.warnings.append(text)

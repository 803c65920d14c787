"""Two sets of manifests compared: the plan that leads from the one, applied and healthy, to the other.

No second reasoning: changes, verdicts, strategy and proof are those of `planner.make`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from manifests.diagnostics import Span
from manifests.manifest import Manifests
from planner.differences import (
    DocumentRow,
    PairRow,
    ProgramRow,
    SecretRow,
    documents,
    pairs,
    programs,
    secrets,
)
from planner.explain import FleetRows, Sums, rows, sums
from planner.make import make
from planner.observed import Snapshot
from planner.options import Options
from planner.pins import PinRow, pins
from planner.plan import Plan
from planner.recorded import Recorded


@dataclass(frozen=True, slots=True)
class LeftRow:
    """A fleet that is not declared any more: its nodes stay, and nothing looks after them. `place` is in the base."""

    fleet: str
    nodes: int
    place: Span | None


@dataclass(frozen=True, slots=True)
class PlanRows:
    """A plan as rows, with its sums."""

    fleets: tuple[FleetRows, ...]
    sums: Sums

    @classmethod
    def of(cls, plan: Plan) -> PlanRows:
        """The rows of a plan."""
        return cls(rows(plan), sums(plan))

    @property
    def changes(self) -> bool:
        return any(not fleet.empty for fleet in self.fleets)

    @property
    def refused(self) -> bool:
        return any(fleet.refusals for fleet in self.fleets)


@dataclass(frozen=True, slots=True)
class Review:
    """What differs between two sets of manifests, and what comes of it for nodes."""

    planned: PlanRows
    documents: tuple[DocumentRow, ...]
    pins: tuple[PinRow, ...]
    pairs: tuple[PairRow, ...]
    secrets: tuple[SecretRow, ...]
    programs: tuple[ProgramRow, ...]
    left: tuple[LeftRow, ...]

    @property
    def changes(self) -> bool:
        """Whether anything differs that means something."""
        return bool(self.planned.changes or self.documents or self.left)


def compare(
    base: Manifests,
    head: Manifests,
    applied: tuple[Snapshot, Mapping[str, Recorded]],
    options: Options,
    now: str,
) -> tuple[Review, Plan]:
    """The review, and the plan that it rests on. `applied` is the base as `planner.applied.applied` has it.

    Raises ManifestError for what is wrong with the head.
    """
    observed, recorded = applied
    plan = make(head, observed, recorded, options, now, {}, seal=False)
    left = tuple(
        LeftRow(name, len(recorded[name].live()), base.where(("Fleet", name), ("name",)))
        for name in base.fleets
        if name not in head.fleets
    )
    return Review(
        planned=PlanRows.of(plan),
        documents=documents(base, head),
        pins=pins(base, head),
        pairs=pairs(base, head),
        secrets=secrets(base, head),
        programs=programs(base, head),
        left=left,
    ), plan

"""A review as one value for all formats, and as the JSON document that `review --format json` prints.

Its JSON Schema is docs/reference/review.schema.json; the keys here are its keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from manifests.diagnostics import Diagnostic, Severity
from planner.differences import DocumentRow, PairRow, ProgramRow, SecretRow
from planner.explain import FleetRows, Sums
from planner.pins import PinRow
from planner.review import LeftRow, PlanRows, Review

FORMAT_VERSION = "1.0"
NOTHING = Sums(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two things that are compared; `commit` is null for a folder and for the working tree."""

    name: str
    commit: str | None

    def __str__(self) -> str:
        short = (self.commit or "")[:12]
        return f"{self.name} ({short})" if short and short not in self.name else self.name


@dataclass(frozen=True, slots=True)
class Seen:
    """What the fleet as last seen makes of the newer manifests. `source`: a snapshot, or the state alone."""

    source: Literal["observed", "state"]
    at: str
    fleets: tuple[FleetRows, ...]
    sums: Sums
    findings: tuple[Diagnostic, ...]

    @property
    def refused(self) -> bool:
        return any(f.refusals for f in self.fleets) or any(f.is_error for f in self.findings)

    @property
    def changes(self) -> bool:
        return any(not f.empty for f in self.fleets)


@dataclass(frozen=True, slots=True)
class ReviewDocument:
    """What a review says. Of manifests that are not `valid` only the findings are there.

    `changes`: something differs that means something; `refused`: the plan, the fleet as last seen, or a finding
    forbids it. `findings` are about the manifests, `remarks` are what the review says of single lines.
    """

    format_version: str
    base: Side
    head: Side
    valid: bool
    changes: bool
    refused: bool
    findings: tuple[Diagnostic, ...]
    fleets: tuple[FleetRows, ...] = ()
    sums: Sums = NOTHING
    pins: tuple[PinRow, ...] = ()
    pairs: tuple[PairRow, ...] = ()
    secrets: tuple[SecretRow, ...] = ()
    programs: tuple[ProgramRow, ...] = ()
    left: tuple[LeftRow, ...] = ()
    documents: tuple[DocumentRow, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()
    seen: Seen | None = None

    @property
    def said(self) -> tuple[Diagnostic, ...]:
        """All that is said of single lines, the heaviest first."""
        seen = () if self.seen is None else self.seen.findings
        found = (*self.findings, *self.remarks, *seen)
        return tuple(sorted(found, key=lambda d: list(Severity).index(d.severity)))

    @property
    def planned(self) -> PlanRows:
        """The plan's part."""
        return PlanRows(self.fleets, self.sums)


def invalid(base: Side, head: Side, findings: tuple[Diagnostic, ...]) -> ReviewDocument:
    """The document of manifests that cannot be used."""
    return ReviewDocument(FORMAT_VERSION, base, head, False, True, False, findings)


def valid(
    base: Side,
    head: Side,
    review: Review,
    findings: tuple[Diagnostic, ...],
    remarks: tuple[Diagnostic, ...],
    seen: Seen | None,
) -> ReviewDocument:
    """The document of a comparison."""
    refused = (
        review.planned.refused or any(f.is_error for f in findings) or (seen is not None and seen.refused)
    )
    return ReviewDocument(
        format_version=FORMAT_VERSION,
        base=base,
        head=head,
        valid=True,
        changes=review.changes,
        refused=refused,
        findings=findings,
        fleets=review.planned.fleets,
        sums=review.planned.sums,
        pins=review.pins,
        pairs=review.pairs,
        secrets=review.secrets,
        programs=review.programs,
        left=review.left,
        documents=review.documents,
        remarks=remarks,
        seen=seen,
    )


def render_json(document: ReviewDocument) -> str:
    """The JSON text."""
    return _adapter().dump_json(document, indent=2).decode()


def schema() -> dict[str, Any]:
    """The JSON Schema of the document: every key is there."""
    made = _adapter().json_schema(mode="serialization")
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "fleetctl review"
    return made


def _adapter() -> TypeAdapter[ReviewDocument]:
    return TypeAdapter(ReviewDocument)

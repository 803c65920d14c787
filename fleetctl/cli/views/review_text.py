"""A review for people: findings, what is lost, what becomes of each fleet, what else differs, and the sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetctl.cli.terminal import PLAIN, Paint, one_line
from fleetctl.cli.views import plan_text, wording
from fleetctl.cli.views.diagnostics import render_diagnostic
from fleetctl.cli.views.review_document import ReviewDocument, Seen
from manifests.diagnostics import Diagnostic
from planner.differences import DocumentRow, PairRow, ProgramRow, SecretRow
from planner.explain import FleetRows, Sums
from planner.pins import PinRow

NOTHING = "Nothing differs that means anything to a fleet."
SAME_NAME = ": other bytes under the same name"
NOT_VALID = "The manifests cannot be used, so nothing was compared."


def render(document: ReviewDocument, lines: dict[str, list[str]], paint: Paint = PLAIN) -> str:
    """The whole review. `lines` are those of the files that were read, for the places of findings."""
    blocks = [paint("bold", headline(document))]
    blocks += [render_diagnostic(f, paint, lines) for f in document.findings]
    if document.valid:
        blocks += _sections(document, lines, paint)
    blocks.append(_closing(document, paint))
    return "\n\n".join(b for b in blocks if b)


def headline(document: ReviewDocument) -> str:
    """`Review: main (1a2b3c4d5e6f) -> the working tree`"""
    return f"Review: {one_line(str(document.base))} -> {one_line(str(document.head))}"


def _sections(document: ReviewDocument, lines: dict[str, list[str]], paint: Paint) -> Iterator[str]:
    shown = [f for f in document.fleets if not f.empty or f.warnings]
    yield section("Lost for good:", losses(document.fleets), paint, "red bold")
    yield plan_text.render_legend(shown, paint)
    for fleet in shown:
        yield plan_text.render_fleet(fleet, paint)
    yield section("No longer declared:", left(document), paint, "yellow bold")
    yield section("Points of no return:", no_return(document.fleets), paint, "yellow bold")
    moved = [pin(p) + ("" if p.kind == "release" else SAME_NAME) for p in document.pins]
    yield section("Pins that moved:", moved, paint)
    yield section("Transitions declared otherwise:", [pair(p) for p in document.pairs], paint)
    yield section("New references to secrets:", [secret(s) for s in document.secrets], paint)
    yield section("New programs:", [program(p) for p in document.programs], paint, "yellow bold")
    yield section("Written differently:", [written(d) for d in document.documents], paint)
    if document.seen is not None:
        yield _seen(document.seen, lines, paint)


def section(title: str, entries: Sequence[str], paint: Paint, style: str = "bold") -> str:
    """A titled list; empty without entries."""
    return "\n".join([paint(style, title), *(f"  {line}" for line in entries)]) if entries else ""


def losses(fleets: Sequence[FleetRows]) -> list[str]:
    """What is lost for good, of all fleets."""
    return [wording.loss(f.fleet, row) for f in fleets for row in f.losses]


def left(document: ReviewDocument) -> list[str]:
    """The fleets that nobody declares any more."""
    return [f"fleet/{row.fleet}: {wording.left(row.nodes)}" for row in document.left]


def no_return(fleets: Sequence[FleetRows]) -> list[str]:
    """The transitions that cannot be undone, each with the first node that makes it."""
    found = []
    for fleet in fleets:
        first = f", from the start of {fleet.no_return_at} on" if fleet.no_return_at else ""
        found += [f"fleet/{fleet.fleet}: {wording.transition(v)}{first}" for v in fleet.no_return]
    return found


def pin(row: PinRow) -> str:
    """`hello 1.0.0 -> 1.1.0 (fleet/hello): host/any sha256:12… -> sha256:34…, at fleet.yaml:5:10`"""
    before, after = _short(row.before), _short(row.after)
    owners = f" ({wording.names(row.owners)})" if row.owners else ""
    if row.artifacts:
        moved = [f"{a.artifact} {_short(a.before)} -> {_short(a.after)}" for a in row.artifacts]
        owners += f": {wording.names(moved)}"
    return f"{row.what}{'' if row.kind == 'release' else ':'} {before} -> {after}{owners}{_at(row.place)}"


def _short(text: str | None) -> str:
    return wording.digest(text or "(none)")


def pair(row: PairRow) -> str:
    """How a transition was declared and is now, and where."""
    return wording.declared(row) + _at(row.place)


def secret(row: SecretRow) -> str:
    """`env:TOKEN, for fleet/hello: groups.process.env.TOKEN, at …`"""
    return f"{one_line(row.reference)}, for {row.used_by}: {one_line(row.field)}{_at(row.place)}"


_WHERE = {"here": "here, beside fleetctl", "host": "on the node's host", "node": "where the node lives"}


def program(row: ProgramRow) -> str:
    """`fleet/hello, pre_drain, here, beside fleetctl: ./balancer remove …, at …`"""
    words = wording.value("command", " ".join(row.command))
    return f"fleet/{row.fleet}, {row.moment}, {_WHERE[row.where]}: {words}{_at(row.place)}"


def written(row: DocumentRow) -> str:
    """`Fleet hello: release.version, rollout.reserve`"""
    said = wording.names([one_line(key) for key in row.keys]) if row.change == "changed" else row.change
    return f"{row.kind} {row.name.partition('#')[0]}: {said}{_at(row.place)}"


def sums(given: Sums) -> str:
    """`Review: 0 to add, 3 to change, 0 to destroy.`"""
    return f"Review: {given}."


def _at(place: object) -> str:
    return f", at {one_line(str(place))}" if place is not None else ""


def seen_title(seen: Seen) -> str:
    """Where the fleet as last seen comes from."""
    source = f"a snapshot of {one_line(seen.at)}" if seen.source == "observed" else "the state, all healthy"
    return f"As last seen ({source}):"


def _seen(seen: Seen, lines: dict[str, list[str]], paint: Paint) -> str:
    shown = [f for f in seen.fleets if not f.empty or f.warnings]
    blocks = [paint("bold", seen_title(seen))]
    blocks += [render_diagnostic(f, paint, lines) for f in seen.findings]
    blocks += [plan_text.render_fleet(f, paint) for f in shown]
    blocks += proofs(seen.fleets)
    blocks.append(paint("bold", f"From there: {seen.sums}."))
    return "\n\n".join(blocks)


def proofs(fleets: Sequence[FleetRows]) -> list[str]:
    """The lowest availability of each fleet that is touched."""
    return [wording.availability(f, several=len(fleets) > 1) for f in fleets if f.proven]


def errors(found: Sequence[Diagnostic]) -> int:
    """How many findings forbid it."""
    return sum(d.is_error for d in found)


def refusals(document: ReviewDocument) -> int:
    """How many reasons forbid the change."""
    seen = document.seen
    count = sum(len(f.refusals) for f in document.fleets) + errors(document.findings)
    return count + (0 if seen is None else sum(len(f.refusals) for f in seen.fleets) + errors(seen.findings))


def _closing(document: ReviewDocument, paint: Paint) -> str:
    if not document.valid:
        return paint("red bold", NOT_VALID)
    if not document.changes and not document.refused:
        return paint("green bold", NOTHING)
    lines = []
    count = refusals(document)
    if count:
        lines.append(paint("red bold", f"Refused: {count} reason{'s' if count > 1 else ''}, see above."))
    lines.append(paint("bold", sums(document.sums)))
    lines += proofs(document.fleets)
    return "\n".join(lines)

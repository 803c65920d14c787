"""A plan for people: what is lost first, then what serves now and will be touched, then the rest, and the sums.

Glyphs are those people know: `+` create, `~` change in place, `-` destroy, `-/+` stop and place anew,
`=` take over; the legend names only those that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line
from fleetctl.cli.views import wording
from planner.change import Action
from planner.explain import ChangeRow, FleetRows, one_by_one, rows, sums
from planner.plan import Plan, Refusal, Verdict

GLYPHS = {
    Action.DESTROY: ("  -", "red", "destroy"),
    Action.REPLACE: ("-/+", "yellow", "replace (stop, place the new one, start)"),
    Action.RESTART: ("  ~", "yellow", "change in place"),
    Action.RELOAD: ("  ~", "yellow", "change in place"),
    Action.STOP: ("  !", "yellow", "stop"),
    Action.ADOPT: ("  =", "cyan", "take over"),
    Action.CREATE: ("  +", "green", "create"),
}
# More nodes than this with the very same change are told in one line.
ALIKE_MAX = 8
NO_CHANGES = "No changes. Everything that was declared is there and healthy."
NO_CHANGES_BUT = "No changes. Not everything is well, or could be seen: see above."


def render_plan(plan: Plan, paint: Paint = PLAIN) -> str:
    """The whole plan; ends with the sums, one line each."""
    fleets = rows(plan)
    blocks = ["" if plan.empty else render_legend(fleets, paint)]
    blocks += [render_fleet(f, paint) for f in fleets if not f.empty or f.warnings or f.drifted]
    if plan.targets:
        blocks.append(
            f"Only {wording.names(plan.targets)} was looked at (--target); other nodes may differ from their manifests."
        )
    blocks.append(_summary(plan, fleets, paint))
    return "\n\n".join(b for b in blocks if b)


def summary(plan: Plan, paint: Paint = PLAIN) -> str:
    """The closing lines: refusals by number, what is added, changed and destroyed, and the lowest availability."""
    return _summary(plan, rows(plan), paint)


def _summary(plan: Plan, fleets: tuple[FleetRows, ...], paint: Paint) -> str:
    if plan.empty:
        if any(f.warnings for f in fleets):
            return paint("yellow bold", NO_CHANGES_BUT)
        return paint("green bold", NO_CHANGES)
    lines = []
    refusals = sum(len(f.refusals) for f in fleets)
    if refusals:
        lines.append(
            paint(
                "red bold",
                f"Refused: {refusals} reason{'s' if refusals > 1 else ''}, see above. Nothing can be applied.",
            )
        )
    lines.append(paint("bold", counts(plan)))
    several = len(fleets) > 1
    lines += [wording.availability(f, several=several) for f in fleets if f.proven]
    return "\n".join(lines)


def counts(plan: Plan) -> str:
    """`Plan: 1 to add, 2 to change, 0 to destroy.`"""
    return f"Plan: {sums(plan)}."


def render_fleet(fleet: FleetRows, paint: Paint = PLAIN) -> str:
    """One fleet: header, drift, changes, verdicts, order, warnings, refusals."""
    lines = [paint("bold", wording.header(fleet))]
    if fleet.drifted:
        drifted = wording.names([f"node/{fleet.fleet}/{node}" for node in fleet.drifted])
        lines.append(paint("yellow", f"  Changed outside of fleetctl: {drifted}"))
    for row in told(fleet.changes):
        lines += _change(fleet.fleet, row, paint)
    if fleet.unchanged and not fleet.empty:
        lines.append(paint("dim", f"      {wording.unchanged(fleet.unchanged)}"))
    if fleet.verdicts:
        lines += ["", "  Compatibility:", *(f"    {_verdict(v, paint)}" for v in fleet.verdicts)]
    if fleet.calls:
        lines += ["", "  Hooks and drains:", *(f"    {one_line(line)}" for line in fleet.calls)]
    order = wording.order(fleet)
    if order:
        lines += ["", "  Order:", *(f"    {line}" for line in order)]
    for text in fleet.warnings:
        lines += ["", f"  {paint('yellow bold', 'Warning:')} {clean(text)}"]
    for refusal in fleet.refusals:
        lines += ["", *(f"  {line}" for line in _refusal(refusal, paint))]
    return "\n".join(lines)


def told(changes: Iterable[ChangeRow]) -> Iterator[ChangeRow]:
    """The rows as they are told: few nodes one by one, many with the same change in one line."""
    for row in changes:
        yield from [row] if len(row.nodes) > ALIKE_MAX else one_by_one(row)


def render_legend(fleets: Iterable[FleetRows], paint: Paint = PLAIN) -> str:
    """What the marks mean, of those that occur; empty when none do."""
    present = {row.action for fleet in fleets for row in fleet.changes}
    seen: dict[str, tuple[Action, str]] = {}
    for action, (mark, _, text) in GLYPHS.items():
        if action in present:
            seen.setdefault(mark, (action, text))
    lines = [f"{_glyph(action, paint)} {text}" for action, text in seen.values()]
    return "\n".join(["What the marks mean:", *lines]) if lines else ""


def _glyph(action: Action, paint: Paint) -> str:
    glyph, style, _ = GLYPHS[action]
    return paint(style, glyph)


def _change(fleet: str, row: ChangeRow, paint: Paint) -> list[str]:
    who = paint("bold", wording.who(fleet, row))
    lines = [f"{_glyph(row.action, paint)} {who} {wording.will(row)}"]
    lines += [f"      {wording.reason(r)}" for r in row.reasons]
    if row.data_lost:
        lines.append(paint("red bold", f"      {wording.DATA_LOST}"))
    lines += [paint("red bold", f"      {wording.lost(what)}") for what in row.losses]
    return lines


def _verdict(verdict: Verdict, paint: Paint) -> str:
    style = {"rolling": "green", "same": "green", "full": "yellow"}.get(verdict.mode, "red bold")
    return f"{wording.transition(verdict)}: {paint(style, verdict.mode)}{wording.verdict_says(verdict)}"


def _refusal(refusal: Refusal, paint: Paint) -> list[str]:
    lines = [f"{paint('red bold', 'Refused:')} {paint('bold', clean(refusal.summary))}"]
    if refusal.place:
        lines.append(f"  at {one_line(refusal.place)}")
    lines += [f"  {line}" for line in clean(refusal.detail).splitlines()]
    if refusal.hint:
        first, *rest = clean(refusal.hint).splitlines()
        lines.append(f"  {paint('cyan', 'Hint:')} {first}")
        lines += [f"        {line}" for line in rest]
    return lines

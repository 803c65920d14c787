"""A plan as Markdown for a pull request: what everybody must see, then each fleet in a fold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fleetctl.cli.views import plan_text, wording
from fleetctl.cli.views.markdown import Fold, Page, bullets, code
from manifests.diagnostics import Diagnostic
from manifests.digest import sha256
from planner.change import Action
from planner.explain import FleetRows, LossRow, Sums, rows, sums
from planner.plan import Plan, Verdict


def page(plan: Plan, number: int = 1, of: int = 1, *, more_refusals: int = 0) -> Page:
    """The page of a plan; `number` of `of` where several are to be applied in order.

    `more_refusals` are those that the plan itself does not have: what policies find.
    """
    fleets = rows(plan)
    which = "" if of == 1 else f" {number} of {of}"
    names = sorted([*plan.manifests, *(f.fleet for f in fleets), *plan.targets, str(number)])
    made = Page(marker("plan", names), [f"### fleetctl plan{which}", ""])
    nothing = plan_text.NO_CHANGES.partition(".")[0]
    made.head += closing(fleets, sums(plan), nothing=nothing, more_refusals=more_refusals)
    if plan.plan_id:
        made.head += [f"Plan {code(plan.plan_id)}, made {code(plan.created_at)}.", ""]
    if plan.targets:
        made.head += bullets([f"**Only {code(t)}** was looked at" for t in plan.targets])
    made.head += summary(fleets)
    made.folds += folds(fleets)
    return made


def marker(kind: str, names: Iterable[str]) -> str:
    """The hidden line that tells one comment from another; the same for the same names."""
    key = sha256("\0".join(names).encode("utf-8", "surrogatepass")).removeprefix("sha256:")[:16]
    return f"<!-- fleetctl {kind} {key} -->"


def closing(fleets: Sequence[FleetRows], counted: Sums, *, nothing: str, more_refusals: int = 0) -> list[str]:
    """The one line that says it all."""
    refused = sum(len(f.refusals) for f in fleets) + more_refusals
    if refused:
        reasons = f"{refused} reason{'s' if refused > 1 else ''}"
        return [f"**Refused** for {reasons}. It would be {counted}.", ""]
    if all(f.empty for f in fleets):
        return [f"**{nothing}.**", ""]
    return [f"**{str(counted)[:1].upper()}{str(counted)[1:]}.**", ""]


def summary(fleets: Sequence[FleetRows]) -> list[str]:
    """What must be seen without opening a fold: losses and refusals first, then ways, availability, warnings."""
    lines: list[str] = []
    lines += bullets([f"**Lost for good:** {loss(f.fleet, row)}" for f in fleets for row in f.losses])
    lines += bullets([refusal(r.summary, r.detail, r.place, r.hint) for f in fleets for r in f.refusals])
    lines += bullets([line for f in fleets for line in _no_return(f)])
    lines += bullets([_fleet(f) for f in fleets if f.strategy != "none"])
    # Many fleets make the same transition; it is judged once.
    lines += bullets(list(dict.fromkeys(_verdict(v) for f in fleets for v in f.verdicts)))
    lines += bullets(
        [f"**Warning:** {code(f'fleet/{f.fleet}')}: {code(w)}" for f in fleets for w in f.warnings]
    )
    return lines


def folds(fleets: Sequence[FleetRows]) -> Iterator[Fold]:
    """One fold for each fleet that has anything to say, in the words of the terminal."""
    for fleet in fleets:
        if not fleet.empty or fleet.warnings or fleet.drifted:
            touched = sum(len(row.nodes) for row in fleet.changes)
            legend = plan_text.render_legend([fleet])
            text = "\n\n".join(part for part in (legend, plan_text.render_fleet(fleet)) if part)
            yield Fold.of(f"fleet/{fleet.fleet}: {touched} node{'' if touched == 1 else 's'} to touch", text)


def loss(fleet: str, row: LossRow) -> str:
    """What is lost; names in code spans."""
    text = wording.loss(fleet, row)
    return code(text)


def refusal(said: str, detail: str, place: str | None, hint: str | None) -> str:
    """A refusal or an error in one line."""
    text = f"**Refused:** {code(said)}: {code(detail)}"
    if place:
        text += f" at {code(place)}"
    return f"{text}. Hint: {code(hint)}" if hint else text


def finding(given: Diagnostic) -> str:
    """A finding in one line."""
    word = "Error" if given.is_error else "Warning"
    text = f"**{word}:** {code(given.summary)}"
    if given.detail:
        text += f": {code(given.detail)}"
    if given.span is not None:
        text += f" at {code(str(given.span))}"
    return text


def _no_return(fleet: FleetRows) -> Iterator[str]:
    for verdict in fleet.no_return:
        first = f", from the start of {code(fleet.no_return_at)} on" if fleet.no_return_at else ""
        yield f"**No way back:** {code(wording.transition(verdict))}{first}"


def _fleet(fleet: FleetRows) -> str:
    """What becomes of the fleet, how, and the lowest availability on the way."""
    how = wording.header(fleet).partition(": ")[2]
    proof = wording.availability(fleet, several=False).removeprefix("Availability: ").rstrip(".")
    return f"{code(f'fleet/{fleet.fleet}')}: {_counted(fleet)}{'; ' + how if how else ''}; **{proof}**"


def _counted(fleet: FleetRows) -> str:
    counts: dict[Action, int] = {}
    for row in fleet.changes:
        counts[row.action] = counts.get(row.action, 0) + len(row.nodes)
    return ", ".join(f"{action.value} {count}" for action, count in counts.items())


def _verdict(verdict: Verdict) -> str:
    text = f"{code(wording.transition(verdict))}: **{verdict.mode}**"
    if verdict.mode not in ("unknown", "refuse"):
        text += "; no way back is declared" if verdict.reverse == "never" else f"; back: {verdict.reverse}"
    if verdict.together:
        text += ", live together"
    return f"{text} ({code(verdict.reason)})" if verdict.reason else text

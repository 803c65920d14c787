"""What a plan or a review says about single lines of the manifests: GitHub's annotations and SARIF draw these.

A remark is a diagnostic: refusals are errors, what cannot be undone is a warning, any other change a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fleetctl.cli.views import wording
from manifests.diagnostics import Diagnostic, Severity, Span, error, warning
from manifests.manifest import Manifests
from planner.change import Action, Reason
from planner.explain import ChangeRow, FleetRows
from planner.places import Places
from planner.plan import Refusal
from planner.review import Review

_CHANGES = {
    Action.CREATE: "Nodes will be created",
    Action.REPLACE: "Nodes will be replaced",
    Action.RESTART: "Nodes will be restarted",
    Action.RELOAD: "Nodes will be told to reload",
    Action.STOP: "Nodes will be stopped",
    Action.ADOPT: "Nodes will be taken over",
    Action.DESTROY: "Nodes will be destroyed",
}
_DATA_LOST = "Nodes will be destroyed, and their data with them"
_WEIGHT = list(Severity)
# They say more of a reason that stands beside them, and have no place of their own.
_BESIDE = frozenset({"downgrade", "same-precedence"})
Where = Callable[[str, str, Reason | None], Span | None]


def of_fleets(fleets: Iterable[FleetRows], manifests: Manifests | None) -> list[Diagnostic]:
    """The remarks of these fleets, the heaviest first. Without manifests only refusals and verdicts have places."""
    found: list[Diagnostic] = []
    for fleet in fleets:
        places = None if manifests is None else Places(manifests, fleet.fleet)
        found += [refusal(r) for r in fleet.refusals]
        found += _losses_of_the_way(fleet, places)
        found += _changes(fleet, _nowhere if places is None else places.of)
        found += [
            warning("plan.warning", "The plan warns", f"fleet/{fleet.fleet}: {w}") for w in fleet.warnings
        ]
    return by_weight(found)


def of_review(review: Review, head: Manifests) -> list[Diagnostic]:
    """The remarks of a review: those of its plan, moved bytes, new secrets, and fleets that nobody declares now."""
    found = of_fleets(review.planned.fleets, head)
    for pin in review.pins:
        if pin.kind != "release":
            found.append(
                warning(
                    "pin.moved",
                    "A pin moved under a name that stayed",
                    f"{pin.what}: {pin.before or '(none)'} -> {pin.after or '(none)'}",
                    span=pin.place,
                )
            )
    for pair in review.pairs:
        found.append(
            warning(
                "compat.declared",
                "A transition is declared otherwise",
                wording.declared(pair),
                span=pair.place,
            )
        )
    for secret in review.secrets:
        found.append(
            warning(
                "secret.new",
                "A secret is referred to that was not before",
                f"{secret.used_by} uses {secret.reference} as {secret.field}",
                span=secret.place,
            )
        )
    for program in review.programs:
        found.append(
            warning(
                "program.new",
                "A rollout would run a program that was not there before",
                f"fleet/{program.fleet} runs {' '.join(program.command)} ({program.moment}, {program.where})",
                span=program.place,
            )
        )
    for left in review.left:
        found.append(
            warning(
                "fleet.left",
                "A fleet is not declared any more",
                f"fleet/{left.fleet}: {wording.left(left.nodes)}",
                hint=f"take it down while it is declared: fleetctl destroy --target fleet/{left.fleet}",
            )
        )
    return by_weight(found)


def refusal(given: Refusal) -> Diagnostic:
    """A refusal as a diagnostic."""
    return error(given.code, given.summary, given.detail, span=span_of(given.place), hint=given.hint)


def span_of(place: str | None) -> Span | None:
    """The place that is written as file:line:column; a file's name may hold colons too."""
    file, line, column = ["", "", "", *(place or "").rsplit(":", 2)][-3:]
    if not (file and line.isdecimal() and column.isdecimal()):
        return None
    return Span(file, int(line), int(column))


def by_weight(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Errors, then warnings, then notes, each in the order in which they were found."""
    return sorted(found, key=lambda d: _WEIGHT.index(d.severity))


def _losses_of_the_way(fleet: FleetRows, places: Places | None) -> Iterator[Diagnostic]:
    """The points of no return, volumes that go, and a downtime that was accepted."""
    for verdict in fleet.no_return:
        first = f"; the first node is {fleet.no_return_at}" if fleet.no_return_at else ""
        yield warning(
            "compat.no-return",
            "There is no way back",
            f"fleet/{fleet.fleet}: {wording.transition(verdict)}: no way back is declared{first}",
            span=span_of(verdict.place) or (None if places is None else places.at("release", "version")),
        )
    for loss in fleet.losses:
        if loss.kind in ("volume", "anonymous-volumes", "kept"):
            yield warning(
                "volume.lost",
                "Volumes are lost",
                wording.loss(fleet.fleet, loss),
                span=None if places is None else places.of(loss.group, loss.nodes[0], None),
            )
    if fleet.strategy == "full":
        yield warning(
            "strategy.downtime",
            "The rollout means downtime",
            f"{wording.header(fleet)}. {wording.availability(fleet, several=True)}",
            span=None if places is None else places.at("release", "version"),
        )


def _changes(fleet: FleetRows, where: Where) -> Iterator[Diagnostic]:
    """One remark for each place and reason, with the nodes that it is about."""
    for row in fleet.changes:
        for place, reason, nodes in _placed(row, where):
            alike = replace(row, nodes=tuple(n for n, _ in nodes), hosts=tuple(h for _, h in nodes))
            text = f"{wording.who(fleet.fleet, alike)} {wording.will(alike)}"
            if reason is not None:
                text += f": {wording.reason(reason)}"
            destroys = row.action is Action.DESTROY
            yield Diagnostic(
                Severity.WARNING if destroys else Severity.NOTE,
                "change.data-lost" if row.data_lost else f"change.{row.action.value}",
                _DATA_LOST if row.data_lost else _CHANGES[row.action],
                text,
                place,
            )


def _placed(
    row: ChangeRow, where: Where
) -> Iterator[tuple[Span | None, Reason | None, list[tuple[str, str]]]]:
    reasons: list[Reason | None] = [r for r in row.reasons if r.code not in _BESIDE]
    for reason in reasons or [None]:
        places: dict[Span | None, list[tuple[str, str]]] = {}
        for node, host in zip(row.nodes, row.hosts, strict=True):
            places.setdefault(where(row.group, node, reason), []).append((node, host))
        for place, nodes in places.items():
            yield place, reason, nodes


def _nowhere(group: str, node: str, reason: Reason | None) -> Span | None:
    del group, node, reason
    return None

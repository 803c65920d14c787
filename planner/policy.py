"""What policies say of a plan: a function of the plan, its policies and the time; findings with their places.

A plan that is judged is not changed by it: the same plan may be refused during a freeze and carried out after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from manifests.diagnostics import Diagnostic, Severity, Span
from manifests.names import matches
from manifests.schema.policy import Policy
from planner.change import Action, Change
from planner.freeze import Moment, frozen
from planner.plan import Budget, FleetPlan, Plan, PlannedPolicy

# The ways out of trouble stay open: back to what was healthy, and off a host.
OUT_OF_TROUBLE = frozenset({"rollback", "drain"})
# Nothing of what is wanted is placed by these.
PLACES_NOTHING = frozenset({"destroy", "drain"})
NAMES_MAX = 6


@dataclass(frozen=True, slots=True)
class Question:
    """What is judged: when, the command that would carry the plan out, and whether an approval was given.

    `moment` None: nobody knows yet when that will be, so no freeze is found. `approved` None: the plan is only
    looked at, so that a missing approval is a warning.
    """

    moment: Moment | None
    command: str = "apply"
    approved: bool | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One policy and one fleet's plan."""

    planned: PlannedPolicy
    fleet: FleetPlan
    question: Question

    @property
    def policy(self) -> Policy:
        return self.planned.document

    def find(
        self,
        rule: str,
        summary: str,
        detail: str,
        hint: str | None = None,
        *,
        severity: Severity | None = None,
    ) -> Diagnostic:
        """A finding of one rule, at its place."""
        return finding(self.planned, rule, summary, f"fleet/{self.fleet.fleet}: {detail}", hint, severity)


def judge(plan: Plan, policies: Sequence[PlannedPolicy], question: Question) -> tuple[Diagnostic, ...]:
    """Everything that these policies find about a plan; errors refuse it. Programs are asked elsewhere."""
    found: list[Diagnostic] = []
    for planned in policies:
        for fleet in plan.fleets:
            if matches(fleet.fleet, planned.document.fleets):
                case = Case(planned, fleet, question)
                for rule in RULES:
                    found += rule(case)
    return tuple(found)


def finding(
    planned: PlannedPolicy,
    rule: str,
    summary: str,
    detail: str,
    hint: str | None = None,
    severity: Severity | None = None,
) -> Diagnostic:
    """What a policy's rule says, with the policy's name and reason."""
    policy = planned.document
    why = f": {policy.reason}" if policy.reason else ""
    return Diagnostic(
        severity or Severity.ERROR,
        f"policy.{rule}",
        summary,
        f"{detail}\nThis is policy {policy.name}{why}.",
        _span(planned.places.get(rule) or planned.places.get("")),
        hint,
        f"rules.{rule}",
    )


def _span(place: str | None) -> Span | None:
    """The place in a text file:line:column; the file's name may hold colons too."""
    if place is None:
        return None
    file, line, column = place.rsplit(":", 2)
    return Span(file, int(line), int(column))


def _destroyed(case: Case) -> Iterator[Diagnostic]:
    most = case.policy.rules.destroy_max
    gone = [c for c in case.fleet.changes if c.action is Action.DESTROY]
    if most is not None and len(gone) > most:
        yield case.find(
            "destroy_max",
            "More nodes would be destroyed than a policy allows",
            f"{len(gone)} would be destroyed ({_names(gone)}), and at most {most} may be.",
        )


def _data_lost(case: Case) -> Iterator[Diagnostic]:
    most = case.policy.rules.data_lost_max
    lost = [c for c in case.fleet.changes if _loses(c)]
    if most is not None and len(lost) > most:
        yield case.find(
            "data_lost_max",
            "More nodes would lose their data than a policy allows",
            f"{len(lost)} would lose their data ({_names(lost)}), and at most {most} may.",
            "`data: {retain: true}` keeps a node's data on its host",
        )


def _reserve(case: Case) -> Iterator[Diagnostic]:
    wanted = case.policy.rules.reserve_min
    budget = next((b for b in case.fleet.budgets if b.scope == "fleet"), None)
    if wanted is None or budget is None or budget.count == 0 or case.question.command == "destroy":
        return
    least = _resolved(wanted, budget)
    if budget.reserve < least:
        yield case.find(
            "reserve_min",
            "A fleet's reserve is lower than a policy allows",
            f"its reserve is {budget.reserve} of {budget.count} nodes, and it must be at least {least}.",
            f"write `rollout: {{reserve: {least}}}`",
        )
    elif case.fleet.steps and budget.minimum < min(least, budget.available_now):
        yield case.find(
            "reserve_min",
            "A plan goes below the reserve that a policy asks for",
            f"{budget.minimum} of {budget.count} nodes would stay available, and {least} must.",
            "plan without --accept-downtime",
        )


def _resolved(bound: int | str, budget: Budget) -> int:
    """In whole nodes, percentages rounded down; a number holds as it is, however few nodes there are."""
    return bound if isinstance(bound, int) else budget.count * int(bound.removesuffix("%")) // 100


def _hosts(case: Case) -> Iterator[Diagnostic]:
    allowed = case.policy.rules.hosts
    if allowed is None or case.question.command in PLACES_NOTHING:
        return
    strange: dict[str, list[Change]] = {}
    for change in _staying(case.fleet):
        if not matches(change.host, allowed):
            strange.setdefault(change.host, []).append(change)
    for host, changes in sorted(strange.items()):
        yield case.find(
            "hosts",
            "A node is on a host that a policy does not allow",
            f"{_names(changes)} would be on {host}; allowed are {', '.join(allowed)}.",
        )


def _products(case: Case) -> Iterator[Diagnostic]:
    allowed = case.policy.rules.products
    if allowed is None or case.question.command in PLACES_NOTHING:
        return
    strange: dict[str, list[Change]] = {}
    for change in _staying(case.fleet):
        spec = case.fleet.specs.get(change.node)
        if spec is not None and not matches(spec.product, allowed):
            strange.setdefault(spec.product, []).append(change)
    for product, changes in sorted(strange.items()):
        yield case.find(
            "products",
            "A node runs a product that a policy does not allow",
            f"{_names(changes)} would run {product}; allowed are {', '.join(allowed)}.",
        )


def _freeze(case: Case) -> Iterator[Diagnostic]:
    freeze, moment = case.policy.rules.freeze, case.question.moment
    if freeze is None or moment is None or not case.fleet.steps or case.question.command in OUT_OF_TROUBLE:
        return
    window = frozen(freeze, moment)
    if window is None:
        return
    local = moment.at.astimezone(window.begin.tzinfo)
    why = f" ({window.reason})" if window.reason else ""
    yield case.find(
        "freeze",
        "Nothing may be changed now",
        f"changes are frozen from {window.begin:%Y-%m-%d %H:%M} until {window.end:%Y-%m-%d %H:%M} in "
        f"{freeze.time_zone}{why}; it is {local:%Y-%m-%d %H:%M} there.",
        f"a saved plan can be applied from {window.end:%Y-%m-%d %H:%M} on",
    )


def _approval(case: Case) -> Iterator[Diagnostic]:
    demanded = case.policy.rules.require_approval
    question = case.question
    if demanded is None or not case.fleet.steps or question.approved or question.command in OUT_OF_TROUBLE:
        return
    ends = any(c.action is Action.DESTROY or _loses(c) for c in case.fleet.changes)
    if demanded == "destroys" and not ends:
        return
    what = "what destroys a node or loses data" if demanded == "destroys" else "every change"
    option = "--destroy " if question.command == "destroy" else ""
    yield case.find(
        "require_approval",
        "The plan needs an approval",
        f"{what} needs one.",
        f"fleetctl plan {option}--out FILE, have that file approved, then fleetctl {question.command} --approved FILE",
        severity=Severity.WARNING if question.approved is None else None,
    )


Rule = Callable[[Case], Iterator[Diagnostic]]
RULES: tuple[Rule, ...] = (_destroyed, _data_lost, _reserve, _hosts, _products, _freeze, _approval)


def _staying(fleet: FleetPlan) -> Iterator[Change]:
    return (c for c in fleet.changes if c.counted and c.action is not Action.DESTROY)


def _loses(change: Change) -> bool:
    """Whether anything of the node goes for good: its data folder, or a volume."""
    return change.action is not Action.NOOP and (change.data_lost or bool(change.losses))


def _names(changes: Sequence[Change]) -> str:
    shown = ", ".join(sorted(c.node for c in changes)[:NAMES_MAX])
    return shown if len(changes) <= NAMES_MAX else f"{shown} and {len(changes) - NAMES_MAX} more"

"""What happens, as events for machines: the engine's reports put into the words of `event_types`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fleetctl.cli.terminal import clean, one_line

if TYPE_CHECKING:
    from fleetctl.engine.events import Report
    from planner.plan import FleetPlan, Plan

Event = dict[str, Any]
"""The type and its fields, without the envelope."""

# Facts that somebody else has said.
_REMOTE = frozenset({"answer", "detail", "why"})
_STEPS = {"begun": "step.started", "done": "step.finished", "lost": "step.lost"}
# An answer is a line for people; more of it is in the node's own log.
TEXT_MAX = 2000


def started(plan: Plan) -> Event:
    """The first event of a command."""
    fleets = [_fleet(f) for f in plan.fleets if f.steps]
    return {"type": "command.started", "plan_id": plan.plan_id, "fleets": fleets}


def finished(exit_code: int, summary: str) -> Event:
    """The last event of a command."""
    return {"type": "command.finished", "exit_code": exit_code, "summary": _text(summary)}


def waves(plan: FleetPlan) -> dict[int, list[str]]:
    """The nodes of each wave, in the plan's order. A wave is what the plan calls a phase."""
    found: dict[int, dict[str, None]] = {}
    for step in plan.steps:
        if step.node is not None:
            found.setdefault(step.phase, {})[step.node] = None
    return {phase: list(nodes) for phase, nodes in sorted(found.items())}


def of_report(report: Report) -> Event | None:
    """The event of one report; None for what is only for people."""
    if report.kind == "end":
        return None  # `finished` says it, however the run ends
    make = _MAKERS.get(report.kind, _note)
    facts = {k: _text(v) if k in _REMOTE else v for k, v in report.facts.items()}
    node: Event = {} if report.node is None else {"node": report.node}
    return make(_text(report.text), node, facts)


def _step(text: str, node: Event, facts: Event) -> Event:
    if not facts:
        return _note(text, node, facts)
    return {"type": _STEPS[facts.pop("state")], **node, **facts}


def _answer(text: str, node: Event, facts: Event) -> Event:
    if not node:
        return {"type": "artifact.progress", **facts, "text": text}
    return {"type": "probe.answered", **node, "answer": text, **facts}


def _failed(text: str, node: Event, facts: Event) -> Event:
    del text
    return {"type": "step.failed", **node, "reason": facts.pop("why"), **facts}


def _evidence(text: str, node: Event, facts: Event) -> Event:
    del text
    return {"type": "node.evidence", **node, **facts, "log": clean(facts["log"]).splitlines()}


def _note(text: str, node: Event, facts: Event) -> Event:
    del facts
    return {"type": "note", **node, "text": text}


_MAKERS: dict[str, Callable[[str, Event, Event], Event]] = {
    "run": lambda _, node, facts: {"type": "run.started", **node, **facts},
    "step": _step,
    "answer": _answer,
    "healthy": lambda _, node, facts: {"type": "node.healthy", **node, **facts},
    "failed": _failed,
    "evidence": _evidence,
    "availability": lambda _, node, facts: {"type": "availability", **node, **facts},
    "wait": lambda text, node, _: {"type": "run.waiting", **node, "reason": text.removeprefix("waiting: ")},
    "halt": lambda text, node, facts: {
        "type": "run.halting",
        **node,
        "reason": text.removeprefix("stopping: "),
        **facts,
    },
    "finished": lambda text, node, facts: {"type": "run.finished", **node, **facts, "summary": text},
}


def _text(text: str) -> str:
    return one_line(text)[:TEXT_MAX]


def _fleet(plan: FleetPlan) -> Event:
    return {
        "fleet": plan.fleet,
        "nodes": len({s.node for s in plan.steps if s.node is not None}),
        "steps": len(plan.steps),
        "strategy": plan.rollout.strategy,
        "waves": [{"wave": n, "nodes": nodes} for n, nodes in waves(plan).items()],
        "budgets": [
            {"scope": b.scope, "count": b.count, "floor": b.floor, "reserve": b.hard_floor}
            for b in plan.budgets
        ],
    }

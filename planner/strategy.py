"""How a fleet may move: rolling, full, or not at all. The table of design section 5.

observed -> desired pair        plan                          plan --accept-downtime
every mixed set rolling         rolling                       rolling
some pair full                  refused, says how             full
unknown pair                    refused, names the line       full
some pair refuse                refused                       refused
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from planner.compat import Pairs, mixed, plain, transitions
from planner.plan import Verdict
from planner.situation import Findings, Situation
from planner.work import Work

Strategy = Literal["rolling", "full", "none"]


@dataclass(slots=True)
class Judgement:
    """The strategy, and every verdict that it rests on."""

    strategy: Strategy
    verdicts: list[Verdict] = field(default_factory=list)


def decide(
    situation: Situation, findings: Findings, works: list[Work], pairs: Pairs, *, roomy: bool
) -> Judgement:
    """The strategy for these works; whatever forbids one is noted as a refusal.

    `roomy`: the budget has room for a rolling plan.
    """
    if not any(w.links for w in works):
        return Judgement("none")
    moves = transitions(works)
    verdicts = [pairs.transition(old, new) for old, new in moves]
    refused = [v for v in verdicts if v.mode == "refuse"]
    for verdict in refused:
        _refuse(situation, findings, verdict, moves[verdict.from_, verdict.to], pairs)
    undeclared, joined = _together(works, pairs, full=False)
    rolling = all(v.mode in ("rolling", "same") for v in verdicts) and not undeclared
    wanted = situation.fleet.rollout.strategy
    if rolling and wanted != "full" and (roomy or not situation.options.accept_downtime):
        return Judgement("rolling", _once(verdicts + joined))
    if not any(w.running and w.links and w.counts for w in works) and wanted != "full":
        # Nothing that serves has to stop, so there is no downtime to accept: only what would meet counts.
        pass
    if wanted == "rolling" or not situation.options.accept_downtime:
        if not refused:
            _explain(situation, findings, verdicts, undeclared, moves, pairs)
        return Judgement("rolling", _once(verdicts + joined + undeclared))
    final, joined = _together(works, pairs, full=True)
    for verdict in final:
        _refuse_final(situation, findings, verdict, pairs)
    return Judgement("full", _once(verdicts + joined + final))


def _together(works: list[Work], pairs: Pairs, *, full: bool) -> tuple[list[Verdict], list[Verdict]]:
    """Versions that can be live at one moment: those that no rolling pair joins, and those that one does."""
    undeclared, joined = [], []
    for one, other in mixed(works, full=full):
        verdict = pairs.together(one, other)
        if verdict is not None:
            joined.append(verdict.model_copy(update={"together": True}))
        else:
            undeclared.append(_worse(pairs, one, other).model_copy(update={"together": True}))
    return undeclared, joined


def _worse(pairs: Pairs, one: str, other: str) -> Verdict:
    """Of the two directions between versions that nothing joins, the one that says more."""
    there, back = pairs.transition(one, other), pairs.transition(other, one)
    return back if there.mode == "unknown" or (there.mode == "refuse" and back.mode == "full") else there


def _once(verdicts: list[Verdict]) -> list[Verdict]:
    """Each verdict once. One for a transition stands for the same versions that only meet, unless only theirs
    is rolling.
    """
    moving = {frozenset((v.from_, v.to)): v for v in verdicts if not v.together}
    found: dict[tuple[str, str, bool], Verdict] = {}
    for verdict in verdicts:
        own = moving.get(frozenset((verdict.from_, verdict.to)))
        if verdict.together and own is not None and (own.mode == "rolling" or verdict.mode != "rolling"):
            continue
        found.setdefault((verdict.from_, verdict.to, verdict.together), verdict)
    return list(found.values())


def _explain(
    situation: Situation,
    findings: Findings,
    verdicts: list[Verdict],
    undeclared: list[Verdict],
    moves: dict[tuple[str, str], list[Work]],
    pairs: Pairs,
) -> None:
    """Notes why there is no rolling plan, and what would allow one or the other."""
    blocked = [v for v in verdicts if v.mode in ("full", "unknown")]
    for verdict in blocked:
        _refuse(situation, findings, verdict, moves[verdict.from_, verdict.to], pairs)
    told = {frozenset((v.from_, v.to)) for v in blocked}
    for verdict in undeclared:
        if frozenset((verdict.from_, verdict.to)) not in told:
            _refuse(situation, findings, verdict, [], pairs)
    if not blocked and not undeclared and situation.fleet.rollout.strategy == "full":
        findings.refuse(
            "strategy.full",
            "The rollout means downtime",
            f"fleet {situation.name} has strategy: full, which stops every node that changes at once",
            place=situation.place("rollout", "strategy"),
            hint="accept it with --accept-downtime, or write strategy: auto",
        )


_SUMMARY = {
    "unknown": "The transition is not declared",
    "full": "The transition needs downtime",
    "refuse": "The transition is declared impossible",
}
_TOGETHER = {
    "unknown": "Two versions would be live together that no pair declares",
    "full": "Two versions would be live together that must not meet",
    "refuse": "Two versions would be live together that must not meet",
}


def _refuse(
    situation: Situation, findings: Findings, verdict: Verdict, nodes: list[Work], pairs: Pairs
) -> None:
    old, new, product = verdict.from_, verdict.to, verdict.product
    says = _says(verdict, pairs)
    names = ", ".join(w.name for w in nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
    detail = f"{product} {old} -> {new}" + (f" ({names})" if names else " (together)") + f": {says}"
    declared = pairs.path(old, new)
    if declared and verdict.mode == "unknown":
        detail += f"; declared is {way(declared)}"
    findings.refuse(
        f"compat.{verdict.mode}",
        (_SUMMARY if nodes else _TOGETHER)[verdict.mode],
        detail,
        place=verdict.place or _cause(situation, nodes),
        hint=_hint(situation, verdict, pairs)
        + ("; or go the declared way: plan --via" if declared and verdict.mode == "unknown" else ""),
    )


def _says(verdict: Verdict, pairs: Pairs) -> str:
    """What the tables say of a transition that cannot roll, in words."""
    old, new, product = verdict.from_, verdict.to, verdict.product
    reason = f": {verdict.reason}" if verdict.reason else ""
    if verdict.mode == "unknown":
        says = f"no pair of {product} goes from {old} to {new}, so nothing says that they can serve together"
    elif verdict.mode == "full":
        says = f"the pair is full: {old} and {new} must not serve together{reason}"
    else:
        back = pairs.transition(new, old)
        declared = {"evidence": "depends on what a stopped node's log says", "never": "is never"}
        says = f"this way is closed{reason}"
        if back.mode not in ("refuse", "unknown"):
            says = f"as the way back from {old} it {declared.get(back.reverse, 'is closed')}{reason}"
    other = pairs.elsewhere.get((plain(old), plain(new)))
    if other is not None:
        found, when = other
        settings = ", ".join(f"{name}={value}" for name, value in when.env.items())
        says += f"; the pair at {found.place or 'another place'} says {found.mode}, but only where every node has {settings}"
    return says


def way(verdicts: list[Verdict]) -> str:
    """A path of transitions as people read it: 1.0.0 -> 1.1.0 (full) -> 1.2.0 (rolling)."""
    return " -> ".join([verdicts[0].from_, *(f"{v.to} ({v.mode})" for v in verdicts)])


def _cause(situation: Situation, nodes: list[Work]) -> str | None:
    """Where the version is pinned that asks for the transition: at the node, its group or the fleet."""
    path = nodes[0].path if nodes else None
    if path is not None:
        group = situation.fleet.groups[int(path[1])]
        if len(path) > 3 and group.nodes is not None and group.nodes[int(path[3])].release is not None:
            return situation.place(*path, "release", "version")
        if group.release is not None:
            return situation.place("groups", path[1], "release", "version")
    return situation.place("release", "version")


def _hint(situation: Situation, verdict: Verdict, pairs: Pairs) -> str:
    line = f'{{from: "{verdict.from_}", to: "{verdict.to}", mode: rolling}}'
    if verdict.mode == "unknown":
        where = (
            f"below {pairs.last_place}"
            if pairs.last_place
            else f"to a document of kind Compatibility for {verdict.product}"
        )
        hint = f"if they can serve together, add {line} {where}; if not, declare mode: full"
    elif verdict.mode == "full":
        hint = "stop everything, change it and start it again"
    else:
        return (
            f'declare the way back if there is one: {{from: "{verdict.from_}", to: "{verdict.to}", mode: …}}'
        )
    if situation.fleet.rollout.strategy == "rolling":
        return f"{hint}; with downtime it would go under strategy: auto and --accept-downtime"
    return f"{hint}; or accept the downtime of a full change: --accept-downtime"


def _refuse_final(situation: Situation, findings: Findings, verdict: Verdict, pairs: Pairs) -> None:
    findings.refuse(
        "compat.together",
        "Two versions would stay live together that no rolling pair joins",
        f"{verdict.product} {verdict.from_} and {verdict.to} would both be live when the plan is done, "
        "and downtime does not help against that",
        place=verdict.place or _cause(situation, []),
        hint=f'pin them to one version, or declare {{from: "{verdict.from_}", to: "{verdict.to}", mode: rolling}}'
        + (f" below {pairs.last_place}" if pairs.last_place else ""),
    )

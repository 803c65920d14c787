"""Changes, strategy and budgets become ordered steps, each with its floor and the availability around it.

Phases are barriers: a phase starts when every step of the lower ones succeeded.

    rolling   stage | repairs and new nodes | canary | the rest | what goes
    full      stage | stop all | (destroy) | create all | start all | verify all | what goes

Nodes that are not available go first in the canary and in the rest: replacing them takes nothing down.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from planner.budget import Scope
from planner.chain import STOP, VERIFY, Chain, Expects, Link, brings_back, starts, takes_down
from planner.ordered import built
from planner.phases import Phase, full_phases, rolling_phases
from planner.plan import Availability, Floor, Precondition, Step, StepKind, Verdict
from planner.situation import Situation
from planner.spec import UNKEYED, ReleaseIdentity, config_digest
from planner.strategy import Strategy
from planner.work import Work

STAGE_MS = 15 * 60_000
"""How long an artifact may take to a host: a large image over a slow line."""
_ABSENT = Precondition()
_NOW, _PLACED = Expects.NOW, Expects.PLACED
_NO_FLOOR = Floor.NONE


@dataclass(slots=True)
class Waves:
    """The steps, and per scope the lowest availability on the way."""

    steps: list[Step] = field(default_factory=list)
    minimum: dict[str, int] = field(default_factory=dict)
    window: int = 0
    no_return: int | None = None
    canary_phase: int | None = None


def order(situation: Situation, works: list[Work], strategy: Strategy, budgets: list[Scope]) -> Waves:
    """All steps of a fleet's plan that was not refused."""
    moving = [w for w in works if w.links]
    if strategy == "full":
        phases = full_phases(moving)
    else:
        canary = None if situation.options.drain else situation.fleet.rollout.canary
        phases = rolling_phases(moving, canary.count if canary else 0)
    waves = Waves()
    fleet = budgets[0]
    _stage(waves, moving, fleet.available_now)
    first = 1 if waves.steps else 0
    book = _Book(situation, budgets, strategy)
    last: dict[str, int] = {}
    for number, phase in enumerate(phases, first):
        m = book.open(phase)
        for work, links in phase.items:
            _add(waves.steps, work, links, number, last, book, m)
        book.close(phase)
        if phase.canary and number < first + len(phases) - 1:
            waves.canary_phase = number
    waves.minimum = book.minimum
    waves.window = book.window
    return waves


def no_return(steps: list[Step], works: list[Work], verdicts: list[Verdict]) -> int | None:
    """The first step that starts a node on a version from which no declared way leads back."""
    closed = {(v.from_, v.to) for v in verdicts if v.reverse == "never" and not v.together}
    if not closed:
        return None
    held = {w.change.uid for w in works if (w.old, w.new) in closed}
    return next((s.id for s in steps if s.kind is StepKind.START and s.uid in held), None)


def _add(
    steps: list[Step], work: Work, links: Chain, phase: int, last: dict[str, int], book: _Book, m: int
) -> None:
    """A work's steps of one phase, each after the one before."""
    change, spec, seen = work.change, work.spec, work.seen
    assert spec is not None
    host, node, uid, key = change.host, change.node, change.uid, work.spec_key
    before, disrupts = last.get(uid), work.disrupts
    now = _now(work)
    for link in links:
        expects = link.expects
        precondition: Precondition | None = now
        if expects is _PLACED:
            precondition = _placed(work)
        elif expects is not _NOW:
            precondition = None if expects is None else _ABSENT
        down = disrupts and link.takes_down
        deadline_ms = link.deadline_ms
        if link.takes_down and link is STOP:
            deadline_ms += spec.drain.timeout
        elif link is VERIFY:
            deadline_ms += spec.health.deadline + spec.health.min_ready
        step_id = len(steps)
        steps.append(
            built(
                Step,
                {
                    "after": () if before is None else (before,),
                    "available": book.around(link, work.counts, disrupts, m),
                    "deadline_ms": deadline_ms,
                    "disrupts": down,
                    "floor": book.floor if down else _NO_FLOOR,
                    "generation": seen.generation if link.old and seen is not None else change.generation,
                    "host": host,
                    "id": step_id,
                    "kind": link.kind,
                    "node": node,
                    "phase": phase,
                    "precondition": precondition,
                    "spec": key,
                    "uid": uid,
                },
            )
        )
        before = step_id
    last[uid] = before if before is not None else -1


def _now(work: Work) -> Precondition:
    """What was seen of the node, and what its first step expects."""
    if work.now is None:
        seen = work.seen
        work.now = _ABSENT
        if seen is not None:
            digest = config_digest(seen.fields) if seen.fields else None
            work.now = _pin(digest, seen.generation, work.change.before)
    return work.now


def _placed(work: Work) -> Precondition:
    """What a started node is expected to be: the generation, release and configuration that were placed."""
    wanted = work.wanted
    digest = None
    # A secret that is not keyed yet gets its key when the plan is applied: the digest would be another.
    if wanted is not None and UNKEYED not in "\0".join(wanted.values()):
        digest = config_digest(wanted)
    return _pin(digest, work.change.generation, work.change.after)


def _pin(digest: str | None, generation: int, release: ReleaseIdentity | None) -> Precondition:
    values: dict[str, Any] = {"config_digest": digest, "generation": generation, "release": release}
    return built(Precondition, values)


def _stage(waves: Waves, moving: list[Work], available: int) -> None:
    """One step per host and artifact, before anything else: bytes that cannot be had stop the plan early."""
    now = Availability(after=available, before=available, during=available)
    staged: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for work in moving:
        spec = work.spec
        if spec is None or not starts(work.links):
            continue
        key = (work.change.host, tuple((pin.digest, pin.name) for pin in spec.pins))
        if key in staged:
            continue
        staged.add(key)
        waves.steps.append(
            Step(
                available=now,
                deadline_ms=STAGE_MS,
                host=work.change.host,
                id=len(waves.steps),
                kind=StepKind.STAGE,
                node=None,
                phase=0,
                spec=work.spec_key,
                uid=None,
            )
        )


class _Book:
    """Keeps the books of availability, phase by phase, in the worst order that the window permits."""

    def __init__(self, situation: Situation, budgets: list[Scope], strategy: Strategy) -> None:
        self._per_host = situation.fleet.rollout.max_unavailable_per_host
        self._budgets = budgets
        self._rolling = strategy == "rolling"
        self._now = {scope.scope: scope.available_now for scope in budgets}
        self.minimum = dict(self._now)
        self.window = budgets[0].window if self._rolling else 0
        self._numbers: dict[tuple[bool, bool], Availability] = {}
        self.floor = Floor.ROLLING if self._rolling else Floor.NONE
        self._base = budgets[0].available_now

    def open(self, phase: Phase) -> int:
        """How many available nodes can be down at once in this phase, at most."""
        down = [w for w, links in phase.items if w.disrupts and takes_down(links)]
        fleet = self._at_once(down, self._budgets[0]) if down else 0
        for scope in self._budgets:
            m = fleet
            if scope is not self._budgets[0]:
                m = min(fleet, self._at_once([w for w in down if _in(w, scope)], scope))
            self.minimum[scope.scope] = min(self.minimum[scope.scope], self._now[scope.scope] - m)
        if not self._rolling:
            self.window = max(self.window, fleet)
        self._numbers.clear()
        return fleet

    def _at_once(self, down: list[Work], scope: Scope) -> int:
        if not self._rolling or not down:
            return len(down)
        most = min(len(down), scope.window)
        free = len(down)
        if scope is self._budgets[0]:
            for group in self._budgets[1:]:
                inside = sum(1 for w in down if _in(w, group))
                free -= max(inside - group.window, 0)
            most = min(most, free)
        if self._per_host is not None:
            hosts = Counter(w.change.host for w in down)
            most = min(most, sum(min(n, self._per_host) for n in hosts.values()))
        return most

    def around(self, link: Link, counts: bool, disrupts: bool, m: int) -> Availability:
        """Available nodes before, during and after a step of this phase."""
        down, back = disrupts and link.takes_down, counts and link.back
        key = (down, back)
        found = self._numbers.get(key)
        if found is None:
            low = self._base - m
            found = self._numbers[key] = Availability(
                after=low + 1 if back else low, before=low + 1 if down else low, during=low
            )
        return found

    def close(self, phase: Phase) -> None:
        """Everything of the phase succeeded: who is available now."""
        for scope in self._budgets:
            whole = scope is self._budgets[0]
            self._now[scope.scope] += sum(
                _gain(w, links) for w, links in phase.items if w.counts and (whole or _in(w, scope))
            )
        self._base = self._now[self._budgets[0].scope]


def _gain(work: Work, links: Chain) -> int:
    back = brings_back(links)
    if not work.change.available:
        return int(back)
    return int(back) - int(takes_down(links))


def _in(work: Work, scope: Scope) -> bool:
    return scope.scope == f"group/{work.change.group}"

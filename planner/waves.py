"""Changes, strategy and budgets become ordered steps, each with its floor and the availability around it.

Phases are barriers: a phase starts when every step of the lower ones succeeded.

    rolling   stage | (pre_rollout) | repairs and new nodes | canary | the rest | what goes | (post_rollout)
    full      stage | (pre_rollout) | stop all | (backup) | (destroy) | create all | start all | verify all | …

Nodes that are not available go first in the canary and in the rest: replacing them takes nothing down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from manifests.schema.fleet import Hook
from planner.budget import Scope
from planner.chain import DRAIN, HOOK_SLACK_MS, STOP, VERIFY, Chain, Expects, brings_back, starts, takes_down
from planner.ordered import built
from planner.phases import Phase, full_phases, rolling_phases
from planner.plan import Availability, FleetHooks, Floor, Precondition, Step, StepKind, Verdict
from planner.situation import Situation
from planner.spec import UNKEYED, ReleaseIdentity, config_digest, hook_of
from planner.spread import spreads
from planner.strategy import Strategy
from planner.work import Work

STAGE_MS = 15 * 60_000
"""How long an artifact may take to a host: a large image over a slow line."""
_ABSENT = Precondition()
_NOW, _PLACED = Expects.NOW, Expects.PLACED
_NO_FLOOR = Floor.NONE
_NO_HOOKS = FleetHooks()
HERE = "localhost"
"""Where hooks of the whole rollout run: beside fleetctl."""


@dataclass(slots=True)
class Waves:
    """The steps, and per scope the lowest availability on the way."""

    steps: list[Step] = field(default_factory=list)
    minimum: dict[str, int] = field(default_factory=dict)
    window: int = 0
    no_return: int | None = None
    canary_phase: int | None = None


def order(
    situation: Situation,
    works: list[Work],
    strategy: Strategy,
    budgets: list[Scope],
    hooks: FleetHooks = _NO_HOOKS,
) -> Waves:
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
    if moving:
        first += _around(waves, StepKind.PRE_ROLLOUT, hooks.pre_rollout, first, fleet.available_now)
    book = _Book(situation, budgets, strategy)
    last: dict[str, int] = {}
    for number, phase in enumerate(phases, first):
        m = book.open(phase)
        for work, links in phase.items:
            _add(waves.steps, work, links, number, last, book, m)
        book.close(phase)
        if phase.canary and number < first + len(phases) - 1:
            waves.canary_phase = number
    if moving:
        _around(waves, StepKind.POST_ROLLOUT, hooks.post_rollout, first + len(phases), book.base)
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
    taken = False
    now = _now(work)
    for link in links:
        expects = link.expects
        precondition: Precondition | None = now
        if expects is _PLACED:
            precondition = _placed(work)
        elif expects is not _NOW:
            precondition = None if expects is None else _ABSENT
        # The first of them takes the node down; those after it find it down.
        down = disrupts and link.takes_down and not taken
        taken = taken or down
        deadline_ms = link.deadline_ms
        if link is STOP or link is DRAIN:
            deadline_ms += spec.drain.timeout
        elif link is VERIFY:
            deadline_ms += spec.health.deadline + spec.health.min_ready
        elif link.hook is not None:
            deadline_ms += hook_of(spec, link.kind, link.hook).timeout
        step_id = len(steps)
        steps.append(
            built(
                Step,
                {
                    "after": () if before is None else (before,),
                    "available": book.around(down, work.counts and link.back, m),
                    "deadline_ms": deadline_ms,
                    "disrupts": down,
                    "floor": book.floor if down else _NO_FLOOR,
                    "generation": seen.generation if link.old and seen is not None else change.generation,
                    "hook": link.hook,
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


def _around(waves: Waves, kind: StepKind, hooks: tuple[Hook, ...], phase: int, available: int) -> int:
    """The hooks before or after everything else, one after the other; how many phases that makes."""
    now = Availability(after=available, before=available, during=available)
    for n, hook in enumerate(hooks):
        waves.steps.append(
            Step(
                after=(len(waves.steps) - 1,) if n else (),
                available=now,
                deadline_ms=HOOK_SLACK_MS + hook.timeout,
                hook=n,
                host=HERE,
                id=len(waves.steps),
                kind=kind,
                node=None,
                phase=phase,
                uid=None,
                spec=None,
            )
        )
    return 1 if hooks else 0


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
        self._spreads = spreads(situation.fleet.rollout)
        self._budgets = budgets
        self._rolling = strategy == "rolling"
        self._now = {scope.scope: scope.available_now for scope in budgets}
        self.minimum = dict(self._now)
        self.window = budgets[0].window if self._rolling else 0
        self._numbers: dict[tuple[bool, bool], Availability] = {}
        self.floor = Floor.ROLLING if self._rolling else Floor.NONE
        self.base = budgets[0].available_now

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
        return min([most, *(spread.at_once(down) for spread in self._spreads)])

    def around(self, down: bool, back: bool, m: int) -> Availability:
        """Available nodes before, during and after a step of this phase that takes one down or brings one back."""
        key = (down, back)
        found = self._numbers.get(key)
        if found is None:
            low = self.base - m
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
        self.base = self._now[self._budgets[0].scope]


def _gain(work: Work, links: Chain) -> int:
    back = brings_back(links)
    if not work.change.available:
        return int(back)
    return int(back) - int(takes_down(links))


def _in(work: Work, scope: Scope) -> bool:
    return scope.scope == f"group/{work.change.group}"

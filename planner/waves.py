"""Changes, strategy and budgets become ordered steps, each with its floor and the availability around it.

Phases are barriers: a phase starts when every step of the lower ones succeeded.

    rolling   stage | repairs and new nodes | canary | the rest | what goes
    full      stage | stop all | (destroy) | create all | start all | verify all | what goes

Nodes that are not available go first in the canary and in the rest: replacing them takes nothing down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from planner.budget import Scope
from planner.ordered import built
from planner.phases import Phase, full_phases, rolling_phases
from planner.plan import Availability, Floor, Precondition, Step, StepKind
from planner.situation import Findings, Situation
from planner.spec import UNKEYED, NodeSpec, ReleaseIdentity, config_digest
from planner.strategy import Strategy
from planner.work import Work

# How long one effect may take before its outcome is looked up. Generous: a slow disk is not a failure.
STAGE_MS = 15 * 60_000
CREATE_MS = 60_000
START_MS = 60_000
DESTROY_MS = 60_000
RELOAD_MS = 30_000
ADOPT_MS = 30_000
# Beyond the drain's own timeout: the SIGKILL, and the record of it.
STOP_SLACK_MS = 15_000
# Beyond the health deadline and min_ready: the probe that is under way.
VERIFY_SLACK_MS = 5_000
_EFFECT_MS = {
    StepKind.CREATE: CREATE_MS,
    StepKind.START: START_MS,
    StepKind.DESTROY: DESTROY_MS,
    StepKind.RELOAD: RELOAD_MS,
    StepKind.ADOPT: ADOPT_MS,
}
_TAKES_DOWN = frozenset({StepKind.STOP, StepKind.RELOAD})
_ABSENT = Precondition()


@dataclass(slots=True)
class Waves:
    """The steps, and per scope the lowest availability on the way."""

    steps: list[Step] = field(default_factory=list)
    minimum: dict[str, int] = field(default_factory=dict)
    window: int = 0


def order(
    situation: Situation, findings: Findings, works: list[Work], strategy: Strategy, budgets: list[Scope]
) -> Waves:
    """All steps of a fleet's plan that was not refused."""
    moving = [w for w in works if w.moves]
    if strategy == "full":
        phases = full_phases(moving)
    else:
        canary = situation.fleet.rollout.canary
        phases = rolling_phases(moving, canary.count if canary else 0)
    waves = Waves()
    fleet = budgets[0]
    _stage(waves, moving, fleet.available_now)
    first = 1 if waves.steps else 0
    book = _Book(situation, budgets, strategy)
    last: dict[str, int] = {}
    pins: dict[str, tuple[Precondition, Precondition, Precondition]] = {}
    for number, phase in enumerate(phases, first):
        m = book.open(phase)
        for work, kinds in phase.items:
            uid = work.change.uid
            pinned = pins.get(uid)
            if pinned is None:
                pinned = pins[uid] = _preconditions(work)
            for kind in kinds:
                after = last.get(uid)
                step_id = len(waves.steps)
                waves.steps.append(
                    _step(step_id, kind, work, number, after, pinned, book.around(kind, work, m), strategy)
                )
                last[uid] = step_id
        book.close(phase)
    waves.minimum = book.minimum
    waves.window = book.window
    return waves


def _step(
    step_id: int,
    kind: StepKind,
    work: Work,
    phase: int,
    after: int | None,
    pinned: tuple[Precondition, Precondition, Precondition],
    available: Availability,
    strategy: Strategy,
) -> Step:
    change, spec = work.change, work.spec
    assert spec is not None
    disrupts = kind in _TAKES_DOWN and work.disrupts
    old_generation = kind in (StepKind.STOP, StepKind.DESTROY, StepKind.ADOPT)
    generation = work.seen.generation if old_generation and work.seen is not None else change.generation
    return built(
        Step,
        {
            "after": () if after is None else (after,),
            "available": available,
            "deadline_ms": _deadline(kind, spec),
            "disrupts": disrupts,
            "floor": Floor.ROLLING if disrupts and strategy == "rolling" else Floor.NONE,
            "generation": generation,
            "host": change.host,
            "id": step_id,
            "kind": kind,
            "node": change.node,
            "phase": phase,
            "precondition": _precondition(kind, work, pinned),
            "spec": work.spec_key,
            "uid": change.uid,
        },
    )


def _deadline(kind: StepKind, spec: NodeSpec) -> int:
    if kind is StepKind.STOP:
        return spec.drain.timeout + STOP_SLACK_MS
    if kind is StepKind.VERIFY:
        return spec.health.deadline + spec.health.min_ready + VERIFY_SLACK_MS
    return _EFFECT_MS[kind]


def _preconditions(work: Work) -> tuple[Precondition, Precondition, Precondition]:
    """What must be so before the node is touched, after it is gone or placed: now, between, placed."""
    seen = work.seen
    now = _ABSENT
    if seen is not None:
        now = _pin(config_digest(seen.fields) if seen.fields else None, seen.generation, work.change.before)
    wanted = work.wanted
    digest = None
    # A secret that is not keyed yet gets its key when the plan is applied: the digest would be another.
    if wanted is not None and not any(UNKEYED in v for v in wanted.values()):
        digest = config_digest(wanted)
    return now, _ABSENT, _pin(digest, work.change.generation, work.change.after)


def _pin(digest: str | None, generation: int, release: ReleaseIdentity | None) -> Precondition:
    values: dict[str, Any] = {"config_digest": digest, "generation": generation, "release": release}
    return built(Precondition, values)


def _precondition(
    kind: StepKind, work: Work, pinned: tuple[Precondition, Precondition, Precondition]
) -> Precondition | None:
    if kind is StepKind.VERIFY:
        return None
    if kind is StepKind.CREATE:
        return pinned[1] if work.cleared else pinned[0]
    if kind is StepKind.START and work.places:
        return pinned[2]
    return pinned[0]


def _stage(waves: Waves, moving: list[Work], available: int) -> None:
    """One step per host and artifact, before anything else: bytes that cannot be had stop the plan early."""
    now = Availability(after=available, before=available, during=available)
    staged: set[tuple[str, str, str]] = set()
    for work in moving:
        spec = work.spec
        if spec is None or not work.starts:
            continue
        key = (work.change.host, spec.artifact.digest, spec.artifact.name)
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
        self._numbers: dict[tuple[int, int, int], Availability] = {}
        self._base = budgets[0].available_now

    def open(self, phase: Phase) -> int:
        """How many available nodes can be down at once in this phase, at most."""
        down = [w for w, kinds in phase.items if w.disrupts and not _TAKES_DOWN.isdisjoint(kinds)]
        fleet = self._at_once(down, self._budgets[0]) if down else 0
        for scope in self._budgets:
            inside = down if scope is self._budgets[0] else [w for w in down if _in(w, scope)]
            m = fleet if scope is self._budgets[0] else min(fleet, self._at_once(inside, scope))
            self.minimum[scope.scope] = min(self.minimum[scope.scope], self._now[scope.scope] - m)
        if not self._rolling:
            self.window = max(self.window, fleet)
        return fleet

    def _at_once(self, down: list[Work], scope: Scope) -> int:
        if not self._rolling or not down:
            return len(down)
        most = min(len(down), scope.window)
        if scope is self._budgets[0]:
            for group in self._budgets[1:]:
                inside = sum(1 for w in down if _in(w, group))
                most = min(most, len(down) - inside + min(inside, group.window))
        if self._per_host is not None:
            hosts: dict[str, int] = {}
            for work in down:
                hosts[work.change.host] = hosts.get(work.change.host, 0) + 1
            most = min(most, sum(min(n, self._per_host) for n in hosts.values()))
        return most

    def around(self, kind: StepKind, work: Work, m: int) -> Availability:
        """Available nodes before, during and after a step of this phase."""
        base = self._base
        if kind in _TAKES_DOWN and work.disrupts:
            key = (base - max(m - 1, 0), base - m, base - m)
        elif kind is StepKind.VERIFY and work.counts:
            # What takes itself for available already (a node that is only probed again) adds nothing.
            key = (base - m, base - m, base - m + 1)
        else:
            key = (base - m, base - m, base - m)
        found = self._numbers.get(key)
        if found is None:
            before, during, after = key
            found = self._numbers[key] = Availability(after=after, before=before, during=during)
        return found

    def close(self, phase: Phase) -> None:
        """Everything of the phase succeeded: who is available now."""
        for scope in self._budgets:
            self._now[scope.scope] += sum(
                _gain(w, kinds)
                for w, kinds in phase.items
                if w.counts and (scope is self._budgets[0] or _in(w, scope))
            )
        self._base = self._now[self._budgets[0].scope]


def _gain(work: Work, kinds: tuple[StepKind, ...]) -> int:
    down = work.disrupts and not _TAKES_DOWN.isdisjoint(kinds)
    up = StepKind.VERIFY in kinds
    if work.disrupts:
        return int(up) - int(down)
    return int(up and not work.change.available)


def _in(work: Work, scope: Scope) -> bool:
    return scope.scope == f"group/{work.change.group}"

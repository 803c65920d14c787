"""What may be begun now: the window, the floors by live availability, the bound per host, staleness.

A step that begins a node, or takes one down, starts only on facts that are fresh: whoever broke a node
outside of this rollout has used up the budget just the same.
"""

from __future__ import annotations

import heapq

from fleetctl.engine.events import Effect, Report, Sample
from fleetctl.engine.operate import GOING_DOWN, dispatch
from fleetctl.engine.progress import halt, skip_node
from fleetctl.engine.rollout import FLEET, Halt, NodeState, Rollout, Status, StepState
from manifests.errors import ExitCode
from planner.change import Action
from planner.observed import ObservedNode
from planner.plan import Floor, Precondition, StepKind
from planner.spec import config_digest

SAMPLE_MAX_AGE_S = 0.5
"""How long ago the last look may have ended when a node is begun. Not when it began: a look at a host that does
not answer takes as long as its timeout, and must be worth something all the same."""
SAMPLE_AGAIN_S = 1.0
"""How long to wait before looking again when the floors do not allow anything now."""
BEGUN_MAX = 64
"""Nodes under way at once beside the window: new and dead ones cost no availability, but each costs attention."""
SCAN_MAX = 256
"""How far past a blocked node to look for one that may go (another host, a dead node)."""
SCAN_FULL_MAX = 8
"""The same while the window is full: only a dead node could go then, and the planner puts those first."""


def begin_what_may(rollout: Rollout, out: list[Effect], now_s: float) -> None:
    """Begins every step of the queue that the window, the floors and the facts allow."""
    if not rollout.begin or not rollout.dirty:
        return
    if rollout.hold_until_s is not None and not _baked(rollout, out, now_s):
        return
    if rollout.under_way >= max(BEGUN_MAX, rollout.plan.rollout.window):
        return
    if not fresh(rollout, now_s):
        want_sample(rollout, out)
        return
    blocked: list[tuple[int, str]] = []
    first, limit = "", SCAN_MAX
    while rollout.begin and len(blocked) < limit and rollout.may_begin:
        entry = heapq.heappop(rollout.begin)
        state = rollout.steps[entry[1]]
        if state.status is not Status.WAITING:
            continue
        if rollout.revert_failed and state.node is not None and state.node.available:
            # What failed on the way back elsewhere does not get to take down what still serves.
            skip_node(rollout, state.node)
            continue
        why = _why_not(rollout, state)
        if why:
            blocked.append(entry)
            first = first or why
            if rollout.disrupted >= rollout.plan.rollout.window:
                limit = SCAN_FULL_MAX
            if rollout.under_way >= max(BEGUN_MAX, rollout.plan.rollout.window):
                break
            continue
        _begin(rollout, state, out, now_s)
    for entry in blocked:
        heapq.heappush(rollout.begin, entry)
    rollout.dirty = False
    _tell(rollout, first, out, now_s)


def _baked(rollout: Rollout, out: list[Effect], now_s: float) -> bool:
    """Whether the canary's time is over; a canary that did not stay healthy ends the rollout."""
    assert rollout.hold_until_s is not None
    if now_s < rollout.hold_until_s:
        rollout.sample_at_s = rollout.hold_until_s
        rollout.progress_s = now_s  # it is meant to stand still
        return False
    if not fresh(rollout, now_s):
        want_sample(rollout, out)
        return False
    rollout.hold_until_s = None
    canary = rollout.plan.rollout.canary_phase or 0
    for node in rollout.nodes.values():
        if node.healthy and not node.available and any(s.step.phase <= canary for s in node.steps):
            reason = f"the canary {node.name} did not stay healthy"
            halt(rollout, Halt("failed", ExitCode.FAILED, reason), out)
            return False
    return True


def fresh(rollout: Rollout, now_s: float) -> bool:
    """Whether the last look is young enough, and younger than anything that made us doubt what we know.

    It must have begun after a failure, but only have ended after a node came back: where looks take long and
    nodes come back all the time, none would ever count otherwise.
    """
    if now_s - rollout.looked_s > SAMPLE_MAX_AGE_S:
        return False
    return rollout.sampled_s >= rollout.sample_after_s and rollout.looked_s >= rollout.look_after_s


def want_sample(rollout: Rollout, out: list[Effect]) -> None:
    """Asks for fresh facts, once at a time."""
    if not rollout.sampling:
        rollout.sampling = True
        out.append(Sample())


def stale(precondition: Precondition | None, seen: ObservedNode | None) -> str | None:
    """What has changed at a target since the plan was made; None: nothing that the plan depends on."""
    if precondition is None:
        return None
    if precondition.generation is None:
        return None if seen is None else f"generation {seen.generation} exists; the plan expects none"
    if seen is None:
        return f"it is not there; the plan expects generation {precondition.generation}"
    if seen.generation != precondition.generation:
        return f"generation {seen.generation} is there; the plan expects {precondition.generation}"
    release = precondition.release
    if release is not None and (seen.version, seen.digest) != (release.version, release.digest):
        return (
            f"it runs {seen.version} ({seen.digest}); the plan expects {release.version} ({release.digest})"
        )
    if precondition.config_digest is not None and config_digest(seen.fields) != precondition.config_digest:
        return "its configuration is not the one that the plan was made for"
    return None


def _begin(rollout: Rollout, state: StepState, out: list[Effect], now_s: float) -> None:
    node = state.node
    assert node is not None
    if not node.touched and not node.unseen and not rollout.reverting:
        why = stale(state.step.precondition, node.observed)
        if why is not None:
            reason = f"{node.name} has changed since the plan was made: {why}"
            halt(rollout, Halt("stale", ExitCode.STALE, reason), out)
            return
    if state.step.kind is StepKind.VERIFY:
        rollout.enter(node)
        rollout.go_on.append(state)
        return
    dispatch(rollout, state, out, now_s)


def _why_not(rollout: Rollout, state: StepState) -> str:
    """Why a step must wait; empty when it may begin."""
    node = state.node
    assert node is not None
    if not node.available:
        return ""  # what is down already cannot be taken down; repairing it is always allowed
    if not node.counts:
        return ""  # it is to go: the budgets are about those that stay
    floor = state.step.floor
    if not state.step.disrupts:
        if state.step.kind not in GOING_DOWN or node.action is Action.DESTROY:
            return ""  # an end that is declared is accepted downtime, and the budget does not count the node
        # It was down when the plan was made and has come back since: it counts like any other now.
        floor = Floor.ROLLING if floor is Floor.NONE else floor
    if floor is Floor.NONE:
        return ""  # its downtime was accepted in the plan
    return _slot(rollout, node) or _floors(rollout, node, floor)


def _slot(rollout: Rollout, node: NodeState) -> str:
    settings = rollout.plan.rollout
    if rollout.disrupted >= settings.window:
        return f"{rollout.disrupted} of {settings.window} nodes are under way"
    for domain, limit in node.domains:
        down = rollout.down_in.get(domain, 0)
        if down + 1 > limit:
            return f"{down} of at most {limit} nodes are down in {domain}"
    return ""


def _floors(rollout: Rollout, node: NodeState, floor: Floor) -> str:
    for name in (FLEET, f"group/{node.group}"):
        scope = rollout.scopes.get(name)
        if scope is None:
            continue
        limit = scope.budget.floor if floor is Floor.ROLLING else scope.budget.hard_floor
        if scope.available - 1 < limit:
            what = "floor" if floor is Floor.ROLLING else "reserve"
            return f"{scope.available} of {scope.budget.count} available in {name}, {what} {limit}"
    return ""


def _tell(rollout: Rollout, why: str, out: list[Effect], now_s: float) -> None:
    """Says what is waited for when nothing of ours is under way that would end the wait."""
    waiting = why if why and not rollout.running else ""
    if waiting != rollout.blocked:
        rollout.blocked, rollout.blocked_since_s = waiting, now_s
        if waiting:
            out.append(Report("wait", None, f"waiting: {waiting}", since_s=now_s))
    if why and not rollout.running:
        rollout.sample_at_s = now_s + SAMPLE_AGAIN_S

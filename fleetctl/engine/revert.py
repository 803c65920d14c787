"""The way back: each changed node to the specification that it was last healthy with, once, within the reserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetctl.engine.events import Effect, Journal, Report
from fleetctl.engine.gates import fresh, want_sample
from fleetctl.engine.rollout import NodeState, Rollout, Status, StepState, add_step, link
from fleetctl.engine.tally import count
from fleetctl.ledger import entries
from planner.plan import HOOKS, Floor, Precondition, Step, StepKind, Verdict
from planner.spec import NodeSpec, hook_of

PREFIX = "revert:"
VERB = "revert"
ENGINE = "engine"
Place = tuple[str, ...]
"""A host, and the digests of what is brought there."""
Way = list[dict[str, Any]]
"""The way back as the journal keeps it: for each node its uid, placed generation, and the kinds of its steps."""
# Substrates whose place is bound to its configuration: the container or domain is made anew.
REMADE = frozenset({"docker", "qemu"})
# A stop and a start take what they take; the drain's own bound is added to it.
GRACE_MS = 60_000


def turn_back(rollout: Rollout, out: list[Effect], now_s: float) -> bool:
    """Begins the way back, if it is asked for and open; says why not otherwise. False: there is nothing to wait for."""
    if not rollout.plan.rollout.auto_revert or rollout.reverting or rollout.operations == 0:
        return False
    if not fresh(rollout, now_s):
        want_sample(rollout, out)  # the way back begins from what is there, not from what we believe
        return True
    nodes, closed = candidates(rollout)
    for name, why in closed:
        out.append(Report("note", name, f"stays as it is: {why}"))
    if not nodes:
        return False
    way: Way = [_part(n, n.before, backup=_changes_format(rollout, n)) for n in nodes if n.before is not None]
    full = any(_edge(rollout, n) == "full" for n in nodes)
    reason = "" if rollout.halt is None else rollout.halt.reason
    out.append(Journal((entries.control(VERB, ENGINE, way=way, full=full, reason=reason),)))
    out.append(Report("halt", None, f"going back to the last healthy specification: {len(nodes)} nodes"))
    prepare(rollout, way, full=full)
    rollout.progress_s = now_s
    for state in list(rollout.steps.values()):
        if state.key.startswith(PREFIX) and state.waits == 0:
            rollout.enqueue(state)
    return True


def candidates(rollout: Rollout) -> tuple[list[NodeState], list[tuple[str, str]]]:
    """The nodes to take back, those that are down first, and those that cannot be, with the reason."""
    nodes: list[NodeState] = []
    closed: list[tuple[str, str]] = []
    for node in rollout.nodes.values():
        if not node.touched or node.gone:
            continue
        if node.before is None:
            closed.append((node.name, "it was never healthy before"))
        elif not allowed(rollout, node):
            closed.append(
                (node.name, f"no declared way leads from {_version(node)} back to {node.before.version}")
            )
        elif node.spec != node.before or not node.available or node.withdrawn:
            nodes.append(node)
    nodes.sort(key=lambda n: n.available)
    return nodes, closed


def allowed(rollout: Rollout, node: NodeState) -> bool:
    """Whether the pairs allow this node to go back: rolling, or full where downtime was accepted in the plan."""
    edge = _edge(rollout, node)
    return edge == "rolling" or (edge == "full" and rollout.plan.rollout.accept_downtime)


def _edge(rollout: Rollout, node: NodeState) -> str:
    """How the pairs judge the way back of this node; a change that keeps the release can always be undone."""
    now, before = node.spec, node.before
    if now is None or before is None or now.identity == before.identity:
        return "rolling"
    verdict = _verdict(rollout, node)
    return "never" if verdict is None else verdict.reverse


def _verdict(rollout: Rollout, node: NodeState) -> Verdict | None:
    """What the plan says of the transition that the node has made."""
    now, before = node.spec, node.before
    if now is None or before is None:
        return None
    edge = (before.version, now.version)
    return next(
        (v for v in rollout.plan.verdicts if v.product == now.product and (v.from_, v.to) == edge), None
    )


def _version(node: NodeState) -> str:
    return "" if node.spec is None else node.spec.version


def _changes_format(rollout: Rollout, node: NodeState) -> bool:
    """Whether the node's data may have changed its format, so that the way back needs a backup as well."""
    edge = _verdict(rollout, node)
    return edge is not None and edge.changes_format


def _part(node: NodeState, spec: NodeSpec, *, backup: bool) -> dict[str, Any]:
    """One node's part of the way, from where a fresh look found it."""
    seen = node.observed
    generation = node.generation if seen is None else max(seen.generation, node.generation)
    absent = seen is None and not node.unseen
    kinds = kinds_back(node, spec, absent=absent)
    words = [word for kind in kinds for word in _with_calls(kind, node, spec, kinds, backup=backup)]
    return {"uid": node.uid, "generation": generation, "absent": absent, "kinds": words}


def _with_calls(
    kind: StepKind, node: NodeState, spec: NodeSpec, kinds: Sequence[StepKind], *, backup: bool
) -> list[str]:
    """A step of the way back with the calls that belong before or behind it; a hook as `MOMENT:NUMBER`."""
    hooks, drain = spec.hooks, spec.drain
    if kind is StepKind.STOP and not node.drained:
        again = 0 if node.withdrawn else len(hooks.pre_drain)
        calls = [f"{StepKind.PRE_DRAIN.value}:{n}" for n in range(again)]
        drains = node.available and (drain.http is not None or drain.command is not None)
        return [*calls, *([StepKind.DRAIN.value] if drains else []), kind.value]
    placing = StepKind.DESTROY if StepKind.DESTROY in kinds else StepKind.CREATE
    if kind is placing and backup:
        return [*(f"{StepKind.BACKUP.value}:{n}" for n in range(len(hooks.backup))), kind.value]
    if kind is StepKind.START:
        return [kind.value, *(f"{StepKind.POST_START.value}:{n}" for n in range(len(hooks.post_start)))]
    return [kind.value]


def prepare(rollout: Rollout, way: Sequence[Mapping[str, Any]], *, full: bool) -> None:
    """Adds the steps of the way back to the rollout, as the journal names them: a recovered run finds the same.

    `full`: the two versions must not meet, so all stop, then all change, then all start.
    """
    rollout.told = rollout.told or count(rollout)
    rollout.reverting = True
    for state in rollout.steps.values():
        if state.status is Status.WAITING:
            state.status = Status.SKIPPED
    rollout.begin.clear()
    rollout.go_on.clear()
    rollout.parked.clear()
    rollout.pending.clear()
    rollout.phase, rollout.phase_failed = 0, ""
    staged: dict[Place, StepState] = {}
    for part in way:
        _chain(rollout, rollout.nodes[part["uid"]], part, staged, full=full)
    rollout.phases = sorted(rollout.pending)


def _chain(
    rollout: Rollout,
    node: NodeState,
    part: Mapping[str, Any],
    staged: dict[Place, StepState],
    *,
    full: bool,
) -> None:
    spec, placed = node.before, int(part["generation"])
    parsed = [word.partition(":") for word in part["kinds"]]
    kinds = tuple((StepKind(kind), int(number) if number else None) for kind, _, number in parsed)
    places = any(kind is StepKind.CREATE for kind, _ in kinds)
    assert spec is not None, "only nodes that were healthy before go back"
    node.steps, node.failed = [], ""
    place = (spec.host, *(pin.digest for pin in spec.pins))
    if place not in staged:
        staged[place] = _add(rollout, StepKind.STAGE, None, spec, 0, None, full=full)
    previous = staged[place]
    down = False
    for kind, hook in kinds:
        generation = placed + 1 if places and kind in _AFTER else placed
        guard = None
        if kind in _GUARDED:
            gone = kind is StepKind.CREATE and (part.get("absent", False) or spec.substrate in REMADE)
            guard = Precondition() if gone else Precondition(generation=placed)
        disrupts = kind in _TAKES_DOWN and not down
        down = down or disrupts
        state = _add(rollout, kind, node, spec, generation, guard, full=full, hook=hook, disrupts=disrupts)
        link(rollout, previous.key, state.key)
        previous = state


_NEW = (StepKind.CREATE, StepKind.START, StepKind.VERIFY)
_GUARDED = (StepKind.STOP, StepKind.DESTROY, StepKind.CREATE)
_AFTER = (*_NEW, StepKind.POST_START)
_TAKES_DOWN = (StepKind.PRE_DRAIN, StepKind.DRAIN, StepKind.STOP, StepKind.DESTROY)
# Where all stop before any changes: the phase of each kind.
_FULL = {
    StepKind.STAGE: 0,
    StepKind.PRE_DRAIN: 1,
    StepKind.DRAIN: 1,
    StepKind.STOP: 1,
    StepKind.BACKUP: 2,
    StepKind.DESTROY: 3,
    StepKind.CREATE: 4,
    StepKind.START: 5,
    StepKind.POST_START: 5,
    StepKind.VERIFY: 6,
}


def kinds_back(node: NodeState, spec: NodeSpec, *, absent: bool) -> tuple[StepKind, ...]:
    """The steps that bring a node back to `spec` from where it stands; `absent`: there is nothing of it any more."""
    if absent:
        return _NEW
    placed = node.observed is None or node.observed.generation == node.generation
    if node.spec == spec and placed:
        if not node.running:
            return (StepKind.START, StepKind.VERIFY)
        return (StepKind.STOP, StepKind.START, StepKind.VERIFY)
    stop = (StepKind.STOP,) if node.running else ()
    destroy = (StepKind.DESTROY,) if spec.substrate in REMADE else ()
    return (*stop, *destroy, *_NEW)


def _add(
    rollout: Rollout,
    kind: StepKind,
    node: NodeState | None,
    spec: NodeSpec,
    generation: int,
    guard: Precondition | None,
    *,
    full: bool,
    hook: int | None = None,
    disrupts: bool = False,
) -> StepState:
    number = rollout.reverts
    rollout.reverts += 1
    deadline_ms = spec.health.deadline if kind is StepKind.VERIFY else spec.drain.timeout + GRACE_MS
    if kind in HOOKS and hook is not None:
        deadline_ms = hook_of(spec, kind.value, hook).timeout + GRACE_MS
    step = Step(
        id=len(rollout.steps),
        kind=kind,
        node=None if node is None else node.name,
        uid=None if node is None else node.uid,
        host=spec.host,
        generation=generation,
        hook=hook,
        phase=_FULL[kind] if full else 0,
        precondition=guard,
        disrupts=disrupts,
        floor=Floor.HARD if disrupts and not full else Floor.NONE,
        deadline_ms=deadline_ms,
    )
    return add_step(rollout, f"{PREFIX}{number}", step, spec)

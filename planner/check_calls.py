"""The calls' part of the proof: hooks, drains and backups are all in the plan, each once and in its place."""

from __future__ import annotations

import re

from manifests.schema.fleet import Hook
from planner.change import Change
from planner.plan import HOOKS, FleetPlan, Step
from planner.spec import NodeSpec

AROUND = ("pre_rollout", "post_rollout")
_CALLED = frozenset({"pre_drain", "drain", "backup", "post_start"})
# What each call of a chain stands before (or, after a start, behind); the rest of the chain is judged without them.
_CALLS = re.compile(
    r"((?:pre_drain )*(?:drain )?)(?=stop\b)|(?<=start)((?: post_start)*)|\b((?:backup )*)(?=(?:destroy )?create\b)"
)


def _hook(plan: FleetPlan, step: Step) -> Hook | None:
    """The hook that a step runs."""
    spec = plan.specs.get(step.spec or "")
    owner = plan.hooks if step.kind in AROUND else None if spec is None else spec.hooks
    known: tuple[Hook, ...] = () if owner is None else getattr(owner, step.kind)
    return known[step.hook] if step.hook is not None and 0 <= step.hook < len(known) else None


def calls(plan: FleetPlan, found: list[str]) -> None:
    """That every hook around the rollout runs once, after the artifacts are there, and before or after all else."""
    for kind in AROUND:
        numbers = [s.hook for s in plan.steps if s.kind == kind]
        if plan.steps and numbers != list(range(len(getattr(plan.hooks, kind)))):
            found.append(f"its {kind} hooks are {numbers}")
    others = [s.phase for s in plan.steps if s.kind not in ("stage", *AROUND)]
    staged = max((s.phase for s in plan.steps if s.kind == "stage"), default=-1)
    for step in plan.steps:
        if step.kind in HOOKS and _hook(plan, step) is None:
            found.append(f"step {step.id} runs hook {step.hook} of {step.kind}, which there is not")
        early = step.kind == "pre_rollout" and staged < step.phase < min(others, default=step.phase + 1)
        late = step.kind == "post_rollout" and max(others, default=-1) < step.phase
        if step.kind in AROUND and not early and not late:
            found.append(f"step {step.id} ({step.kind}) is not where it belongs")


def without_calls(change: Change, steps: list[Step], plan: FleetPlan, found: list[str]) -> str:
    """That the calls of a chain are all there, each once and in its place; the chain without them."""
    kinds = [s.kind for s in steps]
    kinds_left = " ".join(kinds)
    spec = plan.specs.get(steps[0].spec or "") if steps else None
    changes_format = _changes_format(plan, change)
    if spec is None or (_CALLED.isdisjoint(kinds) and not _asks(spec) and not changes_format):
        return kinds_left
    kinds_left = _CALLS.sub("", kinds_left)
    wanted = {
        "pre_drain": len(spec.hooks.pre_drain) if "stop" in kinds_left else 0,
        "drain": int(
            "stop" in kinds_left
            and change.available
            and (spec.drain.http is not None or spec.drain.command is not None)
        ),
        "post_start": len(spec.hooks.post_start) if "start" in kinds_left else 0,
        "backup": len(spec.hooks.backup) if changes_format and "create" in kinds_left else 0,
    }
    for kind, count in wanted.items():
        own = [s.hook for s in steps if s.kind == kind]
        if own != ([None] if kind == "drain" else list(range(count)))[:count]:
            found.append(f"{change.node}: its {kind} steps are {own}, and {count} belong there")
    if changes_format and "create" in kinds_left and not wanted["backup"]:
        found.append(f"{change.node}: its data changes the format, and nothing backs it up")
    return kinds_left


def _asks(spec: NodeSpec) -> bool:
    hooks, drain = spec.hooks, spec.drain
    hooked = hooks.pre_drain or hooks.post_start or hooks.backup
    return bool(hooked) or drain.http is not None or drain.command is not None


def _changes_format(plan: FleetPlan, change: Change) -> bool:
    if change.before is None or change.after is None:
        return False
    edge = (change.before.version, change.after.version)
    return any(v.changes_format and (v.from_, v.to) == edge for v in plan.verdicts if not v.together)

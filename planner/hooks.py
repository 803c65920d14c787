"""Hooks in a plan: those around the whole rollout, and the backup that a change of format asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from manifests.diagnostics import error
from manifests.errors import FleetctlError
from manifests.manifest import Path
from manifests.schema.fleet import Hook
from planner.chain import backed_up
from planner.change import Action
from planner.ordered import ordered
from planner.plan import HOOKS, FleetHooks, FleetPlan, StepKind, Verdict
from planner.situation import Findings, Situation
from planner.work import Work


def fleet_hooks(situation: Situation, findings: Findings) -> FleetHooks:
    """The hooks before and after the rollout, rendered; what cannot be rendered is noted as an error."""
    fleet = situation.fleet
    found: dict[str, tuple[Hook, ...]] = {}
    release = situation.manifests.releases.get((fleet.release.product, fleet.release.version))
    known = {"product": fleet.release.product, "version": fleet.release.version}
    if release is not None and release.commit is not None:
        known["commit"] = release.commit
    context = {
        "fleet": {"name": fleet.name, "trust_domain": fleet.trust_domain},
        "release": known,
        "vars": situation.manifests.vars,
    }
    for moment, hooks in (
        ("post_rollout", fleet.rollout.hooks.post_rollout),
        ("pre_rollout", fleet.rollout.hooks.pre_rollout),
    ):
        found[moment] = tuple(
            _rendered(situation, findings, hook, ("rollout", "hooks", moment, n), context)
            for n, hook in enumerate(hooks)
        )
    return ordered(FleetHooks(**found))


def _rendered(
    situation: Situation, findings: Findings, hook: Hook, path: Path, context: Mapping[str, object]
) -> Hook:
    words = []
    for i, word in enumerate(hook.command):
        try:
            words.append(situation.manifests.render(word, context))
        except FleetctlError as e:
            where = (*path, "command", i)
            span = situation.manifests.where(situation.key, where)
            findings.errors.append(
                error(
                    e.code,
                    "A template cannot be rendered",
                    f"{e.message} (a hook of the whole rollout knows fleet, release and vars)",
                    span=span,
                    hint=e.hint,
                    path=".".join(map(str, where)),
                )
            )
    return hook.model_copy(update={"command": tuple(words)})


def back_up(findings: Findings, works: Iterable[Work], verdicts: Iterable[Verdict]) -> None:
    """Puts the backups into the chains of nodes whose transition changes a format; refuses where there are none."""
    # A transition that is closed is not made, with a backup or without one.
    changing = {
        (v.from_, v.to): v for v in verdicts if v.changes_format and not v.together and v.mode != "refuse"
    }
    if not changing:
        return
    without: dict[tuple[str, str], list[str]] = {}
    for work in works:
        key = (work.old or "", work.new or "")
        if not work.links or key not in changing or work.change.action is Action.DESTROY:
            continue
        count = 0 if work.spec is None else len(work.spec.hooks.backup)
        if count:
            work.links = backed_up(work.links, count)
        else:
            without.setdefault(key, []).append(work.name)
    for (old, new), names in without.items():
        verdict = changing[old, new]
        findings.refuse(
            "compat.no-backup",
            "Data would change its format without a backup",
            f"{verdict.product} {old} -> {new} changes the format, and nothing backs up {_names(names)}",
            place=verdict.place,
            hint="declare rollout.hooks.backup, a program that saves a stopped node's data",
        )


def told(plan: FleetPlan) -> list[str]:
    """What the plan calls of the operator's own, in the order of the rollout: `backup: ./save … (here, within 60 s)`."""
    lines: dict[str, int] = {}
    for step in plan.steps:
        spec = plan.specs.get(step.spec or "")
        if step.kind in HOOKS and step.hook is not None:
            owner = plan.hooks if spec is None else spec.hooks
            hook: Hook = getattr(owner, step.kind)[step.hook]
            where = "here" if hook.where == "here" else "on the node's host"
            line = f"{step.kind}: {hook.command[0]} … ({where}, within {hook.timeout / 1000:g} s)"
        elif step.kind is StepKind.DRAIN and spec is not None:
            drain = spec.drain
            how = f"{drain.http.method} {drain.http.path}" if drain.http is not None else "by its command"
            line = f"drain: {how} (within {drain.timeout / 1000:g} s, then SIG{drain.signal})"
        else:
            continue
        lines[line] = lines.get(line, 0) + 1
    order = [kind.value for kind in StepKind]
    found = sorted(lines.items(), key=lambda item: order.index(item[0].partition(":")[0]))
    return [f"{line}, {n} times" if n > 1 else line for line, n in found]


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

"""The one public function: documents, snapshot and recorded state become a plan."""

from __future__ import annotations

from collections.abc import Mapping

from manifests.address import FleetAddress
from manifests.errors import FleetctlError, ManifestError
from manifests.manifest import Manifests, Path
from manifests.names import matches
from planner.budget import Scope, judge, room, scopes
from planner.compat import Pairs
from planner.desired import desire
from planner.diff import Diff
from planner.hooks import back_up, fleet_hooks
from planner.observed import Snapshot
from planner.options import Options
from planner.ordered import built, in_order, ordered
from planner.plan import Budget, FleetHooks, FleetPlan, Plan, PlannedPolicy, RolloutSettings, sealed
from planner.recorded import Recorded
from planner.requires import gate, ordered_fleets
from planner.rules import environment, ports, rebuilds
from planner.sight import Sight, index
from planner.situation import Findings, Situation
from planner.spec import NodeSpec
from planner.strategy import Judgement, decide
from planner.waves import Waves, no_return, order
from planner.work import Work

__all__ = ["Options", "make"]

# Covers no node: everything stays as it is.
_UNTOUCHED = Options(targets=(FleetAddress(""),))


def make(
    manifests: Manifests,
    observed: Snapshot,
    recorded: Mapping[str, Recorded],
    options: Options,
    now: str,
    secrets: Mapping[str, str],
    *,
    seal: bool = True,
) -> Plan:
    """The plan of all fleets, or of those that the options name, sealed with its id.

    `recorded` by fleet name; `now` is RFC 3339, UTC, and `secrets` maps a reference to the keyed digest of
    its value. `seal` False leaves the id out: for a plan that is only looked at. A plan that must not be applied carries its refusals and no steps. Raises ManifestError for
    what is wrong in the manifests, with all findings, and FleetctlError for a fleet that is not there.
    """
    left = {n.uid: n for known in recorded.values() for n in known.nodes.values() if n.withdrawn_at}
    places, sights = index(observed, left)
    errors: list[Findings] = []
    planned: dict[str, FleetPlan] = {}
    taken: dict[tuple[str, int], str] = {}
    chosen = _chosen(manifests, options)
    # What a chosen fleet requires is looked at as well, and left as it is where it was not chosen.
    for name in ordered_fleets(manifests, chosen + _required(manifests, chosen)):
        situation = Situation(
            fleet=manifests.fleets[name],
            manifests=manifests,
            recorded=recorded.get(name) or Recorded(fleet=name),
            sight=sights.get(name) or Sight(),
            places=places,
            options=options if name in chosen else _UNTOUCHED,
            secrets=secrets,
            taken=taken,
        )
        findings = Findings()
        planned[name] = _fleet(situation, findings, observed.taken_at, planned)
        errors.append(findings)
    found = [d for findings in errors for d in findings.errors]
    if found:
        raise ManifestError(found)
    fleets = tuple(plan for name, plan in planned.items() if name in chosen)
    plan = Plan(
        created_at=now,
        fleets=(),
        manifests=dict(manifests.digests),
        policies=_policies(manifests, chosen),
        targets=tuple(sorted({str(t) for t in options.targets})),
    ).model_copy(update={"fleets": fleets})
    return sealed(plan) if seal else plan


def _policies(manifests: Manifests, chosen: list[str]) -> tuple[PlannedPolicy, ...]:
    """The policies that hold for some of these fleets, by name, with the places of their rules."""
    found = []
    for name, policy in sorted(manifests.policies.items()):
        if not any(matches(fleet, policy.fleets) for fleet in chosen):
            continue
        paths: dict[str, Path] = {"": ()} | {
            rule: ("rules", rule) for rule in type(policy.rules).model_fields
        }
        spans = {
            rule: manifests.where(("Policy", name), path)
            for rule, path in paths.items()
            if not rule or getattr(policy.rules, rule) is not None
        }
        places = {rule: str(span) for rule, span in spans.items() if span is not None}
        found.append(PlannedPolicy(document=policy, places=places))
    return tuple(found)


def _chosen(manifests: Manifests, options: Options) -> list[str]:
    for name in options.fleets:
        if name not in manifests.fleets:
            raise FleetctlError(
                f"no fleet is named {name}",
                hint=f"the manifests have {', '.join(sorted(manifests.fleets)) or 'none'}",
                code="plan.no-such-fleet",
            )
    return [name for name in manifests.fleets if not options.fleets or name in options.fleets]


def _required(manifests: Manifests, chosen: list[str]) -> list[str]:
    """Fleets that the chosen ones require, directly or not, and that were not chosen themselves."""
    found: list[str] = []
    queue = list(chosen)
    while queue:
        for requirement in manifests.fleets[queue.pop()].requires:
            name = requirement.fleet
            if name in manifests.fleets and name not in chosen and name not in found:
                found.append(name)
                queue.append(name)
    return found


def _fleet(
    situation: Situation, findings: Findings, observed_at: str, planned: Mapping[str, FleetPlan]
) -> FleetPlan:
    desired, placed = ([], set()) if situation.options.destroy else desire(situation, findings)
    works = Diff(situation, findings).compare(desired, placed)
    for first, second in situation.sight.twice.values():
        findings.refuse(
            "node.twice",
            "One node is in two places",
            f"{first.node.name} ({first.node.uid}) was seen on {first.host} and on {second.host}",
            hint="find out which one is meant, stop the other by hand and remove its record",
        )
    budgets = scopes(situation, works)
    judge(situation, findings, budgets)
    environment(situation, findings, works)
    rebuilds(situation, findings, works)
    if not situation.options.destroy and not situation.options.drain:
        gate(situation, findings, works, planned)
    pairs = Pairs(situation.manifests, situation.fleet.release.product, works)
    attempt = Findings()
    roomy = room(situation, attempt, budgets, works)
    judgement = decide(situation, findings, works, pairs, roomy=roomy)
    if judgement.strategy == "rolling":
        for refusal in attempt.refusals:
            findings.refusals.append(refusal)
    if judgement.strategy == "rolling":
        ports(situation, findings, works)
    back_up(findings, works, judgement.verdicts)
    hooks = fleet_hooks(situation, findings) if judgement.strategy != "none" else FleetHooks()
    waves = Waves(minimum={b.scope: b.available_now for b in budgets})
    if judgement.strategy != "none" and not findings.refusals and not findings.errors:
        waves = order(situation, works, judgement.strategy, budgets, hooks)
        waves.no_return = no_return(waves.steps, works, judgement.verdicts)
    return _document(situation, findings, works, budgets, judgement, waves, hooks, observed_at)


def _document(
    situation: Situation,
    findings: Findings,
    works: list[Work],
    budgets: list[Scope],
    judgement: Judgement,
    waves: Waves,
    hooks: FleetHooks,
    observed_at: str,
) -> FleetPlan:
    rollout = situation.fleet.rollout
    specs: dict[str, NodeSpec] = {
        w.spec_key: w.spec for w in works if w.spec is not None and (w.links or w.counts)
    }
    hosts = {
        name: ordered(situation.manifests.hosts[name])
        for name in {w.change.host for w in works} | {s.host for s in waves.steps}
        if name in situation.manifests.hosts
    }
    settings = RolloutSettings(
        accept_downtime=situation.options.accept_downtime,
        # What was stopped to stay so is not started again because another stop failed.
        auto_revert=rollout.auto_revert and not situation.options.drain,
        bake_ms=rollout.canary.bake if rollout.canary and waves.canary_phase is not None else 0,
        canary_phase=waves.canary_phase,
        max_failures=rollout.max_failures,
        max_unavailable_per_host=rollout.max_unavailable_per_host,
        max_unavailable_per_label=dict(rollout.max_unavailable_per_label),
        progress_deadline_ms=rollout.progress_deadline,
        promotion=rollout.canary.promotion if rollout.canary else "automatic",
        strategy=judgement.strategy,
        window=waves.window,
    )
    return built(
        FleetPlan,
        {
            "budgets": tuple(_budget(scope, waves) for scope in budgets),
            "changes": tuple([w.change for w in works]),
            "fleet": situation.name,
            "hooks": ordered(hooks),
            "hosts": in_order(hosts),
            "lineage": situation.recorded.lineage,
            "no_return": waves.no_return,
            "observed_at": observed_at,
            "refusals": tuple(findings.refusals),
            "rollout": settings,
            "serial": situation.recorded.serial,
            "specs": in_order(specs),
            "steps": tuple(waves.steps),
            "verdicts": tuple(judgement.verdicts),
            "warnings": tuple(findings.warnings),
        },
    )


def _budget(scope: Scope, waves: Waves) -> Budget:
    return Budget(
        available_now=scope.available_now,
        count=scope.count,
        floor=scope.floor,
        hard_floor=scope.reserve,
        max_unavailable=scope.max_unavailable,
        minimum=waves.minimum[scope.scope],
        reserve=scope.reserve,
        scope=scope.scope,
        window=scope.window,
    )

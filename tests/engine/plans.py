"""Plans by hand: small fleets, so that the engine is tried without the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from manifests.schema.fleet import Drain, Health
from manifests.schema.host import Host
from planner.change import Action, Change
from planner.plan import (
    Budget,
    FleetPlan,
    Floor,
    Plan,
    Precondition,
    RolloutSettings,
    Step,
    StepKind,
    Verdict,
    sealed,
)
from planner.recorded import Recorded, derive_uid
from planner.spec import ArtifactPin, NodeSpec

FLEET = "edge"


def digest(version: str) -> str:
    return "sha256:" + version.replace(".", "").ljust(64, "0")


def spec(version: str, host: str = "h1", port: int = 18080, **changes: object) -> NodeSpec:
    return NodeSpec(
        substrate="host",
        host=host,
        address="127.0.0.1",
        port=port,
        product="hello",
        version=version,
        artifact=ArtifactPin(source=f"/a/{version}", digest=digest(version), name="hello"),
        command=("hello",),
        health=Health(interval="50ms", success=1, deadline="2s"),
        drain=Drain(timeout="1s"),
    ).model_copy(update=changes)


class Steps:
    """Collects steps with consecutive ids."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, kind: StepKind, node: str | None, host: str, **rest: object) -> Step:
        rest.setdefault("deadline_ms", 2000)
        step = Step(
            id=len(self.steps),
            kind=kind,
            node=node,
            uid=None if node is None else derive_uid(FLEET, node, 0),
            host=host,
            **rest,  # type: ignore[arg-type]
        )
        self.steps.append(step)
        return step


def plan(
    nodes: Sequence[str],
    version: str,
    recorded: Recorded,
    *,
    now: str = "2026-01-01T00:00:00.000Z",
    hosts: Mapping[str, str] | None = None,
    max_unavailable: int = 1,
    reserve: int = 0,
    canary: int = 0,
    max_failures: int = 0,
    auto_revert: bool = False,
    destroy: Sequence[str] = (),
    reverse: str = "rolling",
    per_host: int | None = None,
    progress_ms: int = 5000,
    window: int | None = None,
) -> Plan:
    """Brings `nodes` to `version`: create what is new, replace what differs, destroy what is named."""
    made, changes, specs = Steps(), [], {}
    known = recorded.live()
    where = dict(hosts or {})
    for name in nodes:
        where.setdefault(name, "h1")
    stages = dict.fromkeys(where.values())
    first = spec(version)
    specs["stage"] = first
    staged = {h: made.add(StepKind.STAGE, None, h, spec=f"stage-{h}") for h in stages if nodes}
    for h in stages:
        specs[f"stage-{h}"] = spec(version, h)
    del specs["stage"]
    verdicts = {}
    for number, name in enumerate(nodes):
        wanted = specs[name] = spec(version, where[name], 18080 + number)
        uid, before = derive_uid(FLEET, name, 0), known.get(name)
        phase = 1 if number < canary or not canary else 2
        if before is None:
            action, generation = Action.CREATE, 1
            guard, kinds = Precondition(), (StepKind.CREATE, StepKind.START, StepKind.VERIFY)
        elif before.spec == wanted:
            changes.append(_change(name, uid, where[name], Action.NOOP, before.generation))
            continue
        else:
            assert before.spec is not None
            action, generation = Action.REPLACE, before.generation + 1
            guard = Precondition(generation=before.generation, release=before.spec.identity)
            kinds = (StepKind.STOP, StepKind.CREATE, StepKind.START, StepKind.VERIFY)
            verdicts[before.spec.version] = Verdict(
                product="hello", from_=before.spec.version, to=version, mode="rolling", reverse=reverse
            )
        changes.append(_change(name, uid, where[name], action, generation))
        after = [staged[where[name]].id]
        for kind in kinds:
            old = kind is StepKind.STOP
            step = made.add(
                kind,
                name,
                where[name],
                spec=name,
                generation=before.generation if old and before else generation,
                phase=phase,
                after=tuple(after),
                precondition=guard if kind is kinds[0] else None,
                disrupts=old,
                floor=Floor.ROLLING if old else Floor.NONE,
            )
            after = [step.id]
    for name in destroy:
        before = known[name]
        after = []
        changes.append(_change(name, before.uid, before.host, Action.DESTROY, before.generation))
        for kind in (StepKind.STOP, StepKind.DESTROY):
            step = made.add(
                kind,
                name,
                before.host,
                generation=before.generation,
                phase=3,
                after=tuple(after),
                disrupts=True,
            )
            after = [step.id]
    count = len(nodes)
    used = {s.host for s in made.steps}
    return sealed(
        Plan(
            created_at=now,
            manifests={},
            fleets=(
                FleetPlan(
                    fleet=FLEET,
                    lineage=recorded.lineage,
                    serial=recorded.serial,
                    rollout=RolloutSettings(
                        strategy="rolling",
                        window=window or max_unavailable,
                        max_failures=max_failures,
                        progress_deadline_ms=progress_ms,
                        auto_revert=auto_revert,
                        max_unavailable_per_host=per_host,
                    ),
                    budgets=(
                        Budget(
                            scope="fleet",
                            count=count,
                            max_unavailable=max_unavailable,
                            reserve=reserve,
                            floor=max(0, count - max_unavailable),
                            hard_floor=reserve,
                            available_now=count,
                            minimum=0,
                        ),
                    ),
                    changes=tuple(changes),
                    steps=tuple(made.steps),
                    specs=specs,
                    verdicts=tuple(verdicts.values()),
                    hosts={
                        h: Host(api_version="fleetctl/v1", kind="Host", name=h)
                        for h in used | set(where.values())
                    },
                    observed_at=now,
                ),
            ),
        )
    )


def _change(name: str, uid: str, host: str, action: Action, generation: int) -> Change:
    return Change(node=name, uid=uid, group="web", host=host, action=action, generation=generation)

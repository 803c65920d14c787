"""The plan document: what will be done, in which order, under which preconditions, and the proof.

Canonical JSON. The same inputs give the same bytes, so `plan_id`, the digest of all the rest, names
the plan, and an edited file betrays itself. Complete but for artifact bytes and secret values.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from manifests.digest import canonical_json, digest_of
from manifests.schema.base import Model
from manifests.schema.host import Host
from planner.change import Change
from planner.spec import NodeSpec, ReleaseIdentity

FORMAT_VERSION = "1.0"


class StepKind(StrEnum):
    """What a step does. All but stage and verify are effects, and go through the ledger one by one."""

    STAGE = "stage"  # bring an artifact to a host; content-addressed, so repeating it is harmless
    STOP = "stop"  # drain, then end
    CREATE = "create"  # place this generation: record, files, environment; starts nothing
    START = "start"
    RELOAD = "reload"  # place changed files and environment, and signal the running process
    DESTROY = "destroy"
    ADOPT = "adopt"  # take over the record of another lineage
    VERIFY = "verify"  # wait until the node counts as available


class Floor(StrEnum):
    """Which floor a step must keep (design section 4)."""

    ROLLING = "rolling"  # count - max_unavailable
    HARD = "hard"  # reserve
    NONE = "none"  # cannot take an available node down, or its downtime was accepted


class Precondition(Model):
    """What must still be so when the step starts; anything else makes the plan stale for this target.

    `uid`'s record must show this generation and release; None: no such record may exist.
    """

    generation: int | None = None
    release: ReleaseIdentity | None = None
    config_digest: str | None = None


class Availability(Model):
    """Available nodes of the fleet before, during and after a step, in the worst order the plan permits."""

    before: int
    during: int
    after: int


class Step(Model):
    """One effect (or stage, or verify). `id` is its index in the fleet's steps.

    It starts when all steps of lower phases and all of `after` succeeded, and, where it takes an
    available node down, a slot of the window is free and the floor holds.
    """

    id: int
    kind: StepKind
    node: str | None
    uid: str | None
    host: str
    generation: int = 0
    phase: int = 0
    after: tuple[int, ...] = ()
    spec: str | None = None
    precondition: Precondition | None = None
    disrupts: bool = False
    floor: Floor = Floor.NONE
    available: Availability | None = None
    deadline_ms: int


class Verdict(Model):
    """What the compatibility tables say of one transition; `place` is the file:line of the pair or of what needs one."""

    product: str
    from_: str
    to: str
    mode: Literal["rolling", "full", "refuse", "unknown", "same"]
    reverse: Literal["rolling", "full", "never", "evidence"] = "never"
    reason: str | None = None
    place: str | None = None


class Budget(Model):
    """A budget in whole nodes. `scope` is `fleet` or `group/NAME`; `minimum` is the proof's lowest availability."""

    scope: str
    count: int
    max_unavailable: int
    reserve: int
    floor: int
    hard_floor: int
    available_now: int
    minimum: int


class Refusal(Model):
    """Why a plan must not be applied: constant summary, detail, the place, and what would allow it."""

    code: str
    summary: str
    detail: str
    place: str | None = None
    hint: str | None = None


class RolloutSettings(Model):
    """What the engine needs of the manifest's rollout while it runs. `window`: nodes that may be down at once."""

    strategy: Literal["rolling", "full", "none"]
    window: int
    max_unavailable_per_host: int | None = None
    max_failures: int = 0
    progress_deadline_ms: int
    auto_revert: bool = False
    accept_downtime: bool = False


class FleetPlan(Model):
    """The plan of one fleet. `lineage` None means: the fleet must not have been applied before.

    `hosts` are the hosts it touches, `specs` the node specifications by node name, `placements` the
    nodes' groups for what is left untouched too (so that availability is judged over the whole fleet).
    """

    fleet: str
    lineage: str | None
    serial: int
    rollout: RolloutSettings
    budgets: tuple[Budget, ...]
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    specs: dict[str, NodeSpec]
    verdicts: tuple[Verdict, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    hosts: dict[str, Host]
    observed_at: str

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps and not self.refusals


class Plan(Model):
    """A plan of one or more fleets, carried out in this order."""

    format_version: str = FORMAT_VERSION
    plan_id: str = ""
    created_at: str
    manifests: dict[str, str]
    targets: tuple[str, ...] = ()
    fleets: tuple[FleetPlan, ...]

    @property
    def empty(self) -> bool:
        """Whether no fleet has anything to do."""
        return all(f.empty for f in self.fleets)

    @property
    def refused(self) -> bool:
        """Whether some fleet's plan must not be applied."""
        return any(f.refusals for f in self.fleets)


def document(plan: Plan) -> dict[str, object]:
    """The plan as a JSON value, without what is empty by default staying implicit: every key is written."""
    return plan.model_dump(mode="json", by_alias=True)


def sealed(plan: Plan) -> Plan:
    """The same plan with its `plan_id`: the pin of everything else in it."""
    body = document(plan)
    body.pop("plan_id")
    return plan.model_copy(update={"plan_id": digest_of(body)})


def encode(plan: Plan) -> bytes:
    """The bytes of a sealed plan's file."""
    return canonical_json(document(plan)) + b"\n"

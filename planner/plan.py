"""The plan document: what will be done, in which order, under which preconditions, and the proof.

Canonical JSON. The same inputs give the same bytes, so `plan_id`, the digest of all the rest, names
the plan, and an edited file betrays itself. Complete but for artifact bytes and secret values. The keys
of every model here are in alphabetical order (see `planner.ordered`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import PrivateAttr

from manifests.digest import canonical_json, sha256
from manifests.schema.base import Model
from manifests.schema.fleet import Hook
from manifests.schema.host import Host
from manifests.schema.policy import Policy
from planner.change import Change
from planner.ordered import AsText, Sorted, ordered
from planner.spec import NodeSpec, ReleaseIdentity

FORMAT_VERSION = "1.2"


class StepKind(StrEnum):
    """What a step does. All but stage and verify are effects, and go through the ledger one by one."""

    STAGE = "stage"  # bring an artifact to a host; content-addressed, so repeating it is harmless
    PRE_ROLLOUT = "pre_rollout"  # hooks: the operator's own programs, each a step of its own
    PRE_DRAIN = "pre_drain"
    DRAIN = "drain"  # the drain's call, awaited
    STOP = "stop"  # the signal, then end
    BACKUP = "backup"
    CREATE = "create"  # place this generation: record, files, environment; starts nothing
    START = "start"
    POST_START = "post_start"
    RELOAD = "reload"  # place changed files and environment, and signal the running process
    DESTROY = "destroy"
    ADOPT = "adopt"  # take over the record of another lineage
    VERIFY = "verify"  # wait until the node counts as available
    POST_ROLLOUT = "post_rollout"


HOOKS = frozenset(
    {
        StepKind.PRE_ROLLOUT,
        StepKind.PRE_DRAIN,
        StepKind.BACKUP,
        StepKind.POST_START,
        StepKind.POST_ROLLOUT,
    }
)
"""The steps that run a hook: `Step.hook` says which of its moment's."""


class Floor(StrEnum):
    """Which floor a step must keep (design section 4)."""

    ROLLING = "rolling"  # count - max_unavailable
    HARD = "hard"  # reserve
    NONE = "none"  # cannot take an available node down, or its downtime was accepted


class Precondition(Model):
    """What must still be so when the step starts; anything else makes the plan stale for this target.

    `uid`'s record must show this generation and release; None: no such record may exist.
    """

    config_digest: str | None = None
    generation: int | None = None
    release: ReleaseIdentity | None = None


class Availability(Model):
    """Available nodes of the fleet before, during and after a step, in the worst order the plan permits.

    Nodes that the plan destroys are not counted.
    """

    after: int
    before: int
    during: int


class Step(Model):
    """One effect (or stage, or verify). `id` is its index in the fleet's steps.

    It starts when all steps of lower phases and all of `after` succeeded, and, where it takes an
    available node down, a slot of the window is free and the floor holds. `spec` is a key of the
    fleet's specs; a stage step brings that specification's artifact. `hook` is the number of a hook among
    those of its moment: of the specification, or of the fleet before and after its rollout.
    """

    after: tuple[int, ...] = ()
    available: Availability | None = None
    deadline_ms: int
    disrupts: bool = False
    floor: Annotated[Floor, AsText] = Floor.NONE
    generation: int = 0
    hook: int | None = None
    host: str
    id: int
    kind: Annotated[StepKind, AsText]
    node: str | None
    phase: int = 0
    precondition: Precondition | None = None
    spec: str | None = None
    uid: str | None


class Verdict(Model):
    """What the compatibility tables say of one transition; `place` is the file:line of the pair or of what needs one.

    `together`: no node goes from one to the other, but both may be live at one moment. `evidence`: with the
    reverse of that name, the text that a stopped node's log must hold for its way back to be open.
    `changes_format`: data changes its format, so each node needs a backup first.
    """

    changes_format: bool = False
    evidence: str | None = None
    from_: str
    mode: Literal["rolling", "full", "refuse", "unknown", "same"]
    place: str | None = None
    product: str
    reason: str | None = None
    reverse: Literal["rolling", "full", "never", "evidence"] = "never"
    to: str
    together: bool = False


class Budget(Model):
    """A budget in whole nodes. `scope` is `fleet` or `group/NAME`; `minimum` is the proof's lowest availability.

    `window`: how many available nodes of the scope may be down at once while the plan rolls.
    """

    available_now: int
    count: int
    floor: int
    hard_floor: int
    max_unavailable: int
    minimum: int
    reserve: int
    scope: str
    window: int = 0


class Refusal(Model):
    """Why a plan must not be applied: constant summary, detail, the place, and what would allow it."""

    code: str
    detail: str
    hint: str | None = None
    place: str | None = None
    summary: str


class RolloutSettings(Model):
    """What the engine needs of the manifest's rollout while it runs. `window`: nodes that may be down at once.

    `canary_phase` is the last phase of the canary: after it the engine waits for `bake_ms`, and for a person
    where `promotion` is manual.
    """

    accept_downtime: bool = False
    auto_revert: bool = False
    bake_ms: int = 0
    canary_phase: int | None = None
    max_failures: int = 0
    max_unavailable_per_host: int | None = None
    max_unavailable_per_label: Sorted[dict[str, int]] = {}
    progress_deadline_ms: int
    promotion: Literal["automatic", "manual"] = "automatic"
    strategy: Literal["rolling", "full", "none"]
    window: int


class FleetHooks(Model):
    """The hooks around the whole rollout, rendered."""

    post_rollout: tuple[Hook, ...] = ()
    pre_rollout: tuple[Hook, ...] = ()


class FleetPlan(Model):
    """The plan of one fleet. `lineage` None means: the fleet must not have been applied before.

    `changes` has every node of the fleet, those left untouched as no-op, so that availability is judged
    over the whole fleet. `hosts` are the hosts of these nodes. `specs` are the node specifications by
    node name, for a node that is destroyed while another takes its name by `NAME@UID`. `no_return` is the
    first step after which some node cannot go back to the version that it had (none: all can).
    """

    budgets: tuple[Budget, ...]
    changes: tuple[Change, ...]
    fleet: str
    hooks: Sorted[FleetHooks] = ordered(FleetHooks())
    hosts: Sorted[dict[str, Host]]
    lineage: str | None
    no_return: int | None = None
    observed_at: str
    refusals: tuple[Refusal, ...] = ()
    rollout: RolloutSettings
    serial: int
    specs: Sorted[dict[str, NodeSpec]]
    steps: tuple[Step, ...]
    verdicts: tuple[Verdict, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps and not self.refusals


class PlannedPolicy(Model):
    """A policy that the plan must keep. `places` has the file:line:column of each rule by its key, and of the
    document by the empty text; none for what nobody wrote.
    """

    document: Sorted[Policy]
    places: Sorted[dict[str, str]] = {}


class Plan(Model):
    """A plan of one or more fleets, carried out in this order, under the policies of these fleets."""

    created_at: str
    fleets: tuple[FleetPlan, ...]
    format_version: str = FORMAT_VERSION
    manifests: Sorted[dict[str, str]]
    plan_id: str = ""
    policies: tuple[PlannedPolicy, ...] = ()
    targets: tuple[str, ...] = ()
    # The document around the place of its plan_id, kept so that it is written once.
    _halves: tuple[bytes, bytes] | None = PrivateAttr(default=None)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Plan:
        """A copy; what was written of the original does not stand for it."""
        copy = super().model_copy(update=update, deep=deep)
        copy._halves = None
        return copy

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
    written = _written(plan)
    copy = plan.model_copy(update={"plan_id": sha256(b"".join(written))})
    copy._halves = written
    return copy


def intact(plan: Plan) -> bool:
    """Whether the plan's id is the pin of the rest; at once for a plan that was sealed in this process."""
    return plan._halves is not None or sealed(plan).plan_id == plan.plan_id


def encode(plan: Plan) -> bytes:
    """The bytes of a sealed plan's file."""
    head, tail = plan._halves or _written(plan)
    return b"%s,%s%s\n" % (head, canonical_json({"plan_id": plan.plan_id})[1:-1], tail)


def _written(plan: Plan) -> tuple[bytes, bytes]:
    """The document without its plan_id, in two halves around the place where that key stands."""
    nameless = plan.model_copy(update={"plan_id": ""}) if plan.plan_id else plan
    body = plan.__pydantic_serializer__.to_json(nameless, by_alias=True, ensure_ascii=False)
    policies = canonical_json([p.model_dump(mode="json", by_alias=True) for p in plan.policies])
    tail = b',"policies":%s,"targets":%s}' % (policies, canonical_json(list(plan.targets)))
    end = b',"plan_id":""' + tail
    assert body.endswith(end), "the keys of Plan are in order, plan_id, policies and targets last"
    return body[: -len(end)], tail

"""Replay: journal entries in, what is believed out. A pure fold, the only way that state is made.

Keys and kinds that this release does not know are passed over; an illegal move of an operation is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleetctl.ledger.entries import Entry, Kind
from fleetctl.ledger.operations import By, IllegalMove, Record, State, move
from fleetctl.ledger.ports import StateError
from planner.plan import StepKind
from planner.recorded import Recorded, RecordedNode
from planner.spec import NodeSpec

WAITING = "waiting"
SUCCEEDED, ROLLBACK = "succeeded", "rollback"
CORDON, UNCORDON = "cordon", "uncordon"
ENDS_WAIT = frozenset({"resume", "promote", "abort"})
LEAVES = frozenset({StepKind.PRE_DRAIN.value, StepKind.DRAIN.value})
ENDS_DRAIN = frozenset({StepKind.STOP.value, StepKind.START.value, StepKind.DESTROY.value})


@dataclass(slots=True)
class Run:
    """One run as the journal tells it. `result` None: it is under way, waits for a person, or was cut off.

    `baseline` has each node as it was recorded when the run began, `operations` the newest attempt of
    each step, `attempts` every attempt by operation id, `healthy` the verify steps that succeeded,
    `controls` its control entries in order, `waiting` what a person must decide before it goes on.
    """

    run: str
    fleet: str
    plan_id: str
    document: str
    command: str
    who: str
    started_at: str
    epoch: int
    result: str | None = None
    exit_code: int | None = None
    summary: str = ""
    finished_at: str | None = None
    effects: int = 0
    baseline: Mapping[str, RecordedNode] = field(default_factory=dict)
    operations: dict[str, Record] = field(default_factory=dict)
    attempts: dict[str, Record] = field(default_factory=dict)
    healthy: set[str] = field(default_factory=set)
    controls: list[Mapping[str, Any]] = field(default_factory=list)
    waiting: str = ""

    @property
    def unsettled(self) -> tuple[Record, ...]:
        """The operations whose outcome is open, in the order in which they were intended."""
        return tuple(r for r in self.attempts.values() if not r.final)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A fleet's journal, replayed: the recorded state, the run that is open, and all runs in order.

    `undo` are the runs that a rollback undoes, the newest last: the newest rollout that gave a node another
    specification, the failed ones that it finished, and rollbacks of it. `before` has the nodes as recorded when
    the first of them began.
    """

    recorded: Recorded
    open_run: Run | None
    runs: tuple[Run, ...]
    undo: tuple[Run, ...] = ()
    before: Mapping[str, RecordedNode] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    """A node while replaying; specifications stay JSON until they are asked for."""

    uid: str
    name: str
    group: str
    host: str
    port: int | None
    generation: int
    spec: Mapping[str, Any] | None = None
    last_healthy: Mapping[str, Any] | None = None
    destroyed: bool = False
    withdrawn_at: str | None = None
    drained: bool = False


class _Fold:
    def __init__(self, fleet: str) -> None:
        self.fleet = fleet
        self.lineage: str | None = None
        self.serial = 0
        self.epoch = 0
        self.nodes: dict[str, _Node] = {}
        self.plans: set[str] = set()
        self.runs: dict[str, Run] = {}
        self.open: Run | None = None
        self.baseline: dict[str, _Node] = {}
        self.undo: list[Run] = []
        self.before: dict[str, _Node] = {}
        self.cordoned: set[str] = set()
        self.handlers: Mapping[str, Callable[[Entry], None]] = {
            Kind.RUN_STARTED.value: self.run_started,
            Kind.OPERATION.value: self.operation,
            Kind.NODE_PLACED.value: self.node_placed,
            Kind.NODE_HEALTHY.value: self.node_healthy,
            Kind.NODE_GONE.value: self.node_gone,
            Kind.NODE_RENAMED.value: self.node_renamed,
            Kind.RUN_FINISHED.value: self.run_finished,
            Kind.CONTROL.value: self.control,
        }

    def absorb(self, entry: Entry) -> None:
        self.lineage = entry["lineage"]
        self.serial = entry["sequence"]
        self.epoch = max(self.epoch, entry["epoch"])
        handler = self.handlers.get(entry["kind"])
        if handler is None:
            return
        try:
            handler(entry)
        except (KeyError, TypeError, ValueError, IllegalMove) as e:
            raise StateError(
                f"entry {self.serial} of fleet {self.fleet} makes no sense: {e!s}",
                hint="restore the state from a backup made before the damage",
                code="state.damaged",
            ) from e

    def run_started(self, entry: Entry) -> None:
        run = self.runs.get(entry["run"])
        if run is not None:
            run.epoch, run.waiting = entry["epoch"], ""
            return
        # Copies of the small records, because they change while the run goes on.
        self.baseline = {uid: replace(node) for uid, node in self.nodes.items()}
        self.open = self.runs[entry["run"]] = Run(
            run=entry["run"],
            fleet=self.fleet,
            plan_id=entry["plan_id"],
            document=entry["document"],
            command=entry["command"],
            who=entry["who"],
            started_at=entry["at"],
            epoch=entry["epoch"],
        )
        self.plans.add(entry["plan_id"])

    def operation(self, entry: Entry) -> None:
        run = self.runs[entry["run"]]
        record = record_of(entry)
        before = run.attempts.get(record.operation_id)
        move(None if before is None else before.state, record.state, record.by)
        if before is None:
            run.effects += 1
        run.attempts[record.operation_id] = run.operations[record.step] = record
        node = self.nodes.get(record.uid or "")
        if node is None:
            return
        if record.state is not State.SUCCEEDED:
            return  # a node that refused its drain serves on, and is asked again before it is stopped
        if record.effect in LEAVES:
            node.withdrawn_at = entry["at"]
            node.drained = node.drained or record.effect == StepKind.DRAIN.value
        elif record.effect in ENDS_DRAIN:
            node.withdrawn_at, node.drained = None, False

    def node_placed(self, entry: Entry) -> None:
        before = self.nodes.get(entry["uid"])
        if self.open is not None and (before is None or before.spec != entry["spec"]):
            self._changes(self.open)
        self.nodes[entry["uid"]] = _Node(
            uid=entry["uid"],
            name=entry["name"],
            group=entry["group"],
            host=entry["host"],
            port=entry["port"],
            generation=entry["generation"],
            spec=entry["spec"],
            last_healthy=None if before is None else before.last_healthy,
        )

    def _changes(self, run: Run) -> None:
        """The run gives a node another specification: it continues what failed, undoes, or begins anew."""
        if self.undo and self.undo[-1] is run:
            return
        if not self.undo or (self.undo[-1].result == SUCCEEDED and run.command != ROLLBACK):
            self.undo, self.before = [], self.baseline
        self.undo.append(run)

    def node_healthy(self, entry: Entry) -> None:
        node = self.nodes[entry["uid"]]
        # Entries of the first releases repeat the specification; it is nearly always what was placed.
        told = entry.get("spec", node.spec)
        node.last_healthy = node.spec if told == node.spec else told
        run = self.runs.get(entry["run"])
        if run is not None:
            run.healthy.add(entry["step"])

    def node_gone(self, entry: Entry) -> None:
        self.nodes[entry["uid"]].destroyed = True

    def node_renamed(self, entry: Entry) -> None:
        node = self.nodes[entry["uid"]]
        node.name, node.group = entry["name"], entry["group"]

    def run_finished(self, entry: Entry) -> None:
        run = self.runs[entry["run"]]
        run.result, run.exit_code = entry["result"], entry["exit_code"]
        run.summary, run.finished_at = entry["summary"], entry["at"]
        if self.open is run:
            self.open = None

    def control(self, entry: Entry) -> None:
        if entry["verb"] in (CORDON, UNCORDON):
            (self.cordoned.add if entry["verb"] == CORDON else self.cordoned.discard)(entry["host"])
            return
        run = self.runs.get(entry["run"])
        if run is not None:
            run.controls.append(entry)
            if entry["verb"] == WAITING:
                run.waiting = entry["reason"]
            elif entry["verb"] in ENDS_WAIT:
                run.waiting = ""

    def result(self) -> Replayed:
        specs: dict[int, NodeSpec] = {}

        def spec(document: Mapping[str, Any] | None) -> NodeSpec | None:
            if document is None:
                return None
            known = specs.get(id(document))
            if known is None:
                known = specs[id(document)] = spec_of(document)
            return known

        def node(n: _Node) -> RecordedNode:
            return RecordedNode(
                uid=n.uid,
                name=n.name,
                group=n.group,
                host=n.host,
                port=n.port,
                generation=n.generation,
                spec=spec(n.spec),
                last_healthy=spec(n.last_healthy),
                destroyed=n.destroyed,
                withdrawn_at=n.withdrawn_at,
                drained=n.drained,
            )

        if self.open is not None:
            self.open.baseline = {uid: node(n) for uid, n in self.baseline.items()}
        return Replayed(
            recorded=Recorded(
                fleet=self.fleet,
                lineage=self.lineage,
                serial=self.serial,
                epoch=self.epoch,
                nodes={uid: node(n) for uid, n in self.nodes.items()},
                plans=frozenset(self.plans),
                open_run=None if self.open is None else self.open.run,
                unknown=() if self.open is None else tuple(r.operation_id for r in self.open.unsettled),
                cordoned=frozenset(self.cordoned),
            ),
            open_run=self.open,
            runs=tuple(self.runs.values()),
            undo=tuple(self.undo),
            before={uid: node(n) for uid, n in self.before.items()},
        )


def replay(fleet: str, entries: Iterable[Entry]) -> Replayed:
    """The state that a fleet's journal tells; no entries: a fleet that was never applied. Raises StateError."""
    fold = _Fold(fleet)
    for entry in entries:
        fold.absorb(entry)
    return fold.result()


def record_of(entry: Entry) -> Record:
    """The operation record in an entry of kind `operation`."""
    return Record(
        operation_id=entry["operation_id"],
        attempt=entry["attempt"],
        uid=entry["uid"],
        node=entry["node"],
        generation=entry["generation"],
        effect=entry["effect"],
        request_sha256=entry["request_sha256"],
        step=entry["step"],
        run=entry["run"],
        epoch=entry["epoch"],
        state=State(entry["state"]),
        by=By(entry["by"]),
        evidence=entry["evidence"],
        at=entry["at"],
    )


def spec_of(document: Mapping[str, Any]) -> NodeSpec:
    """A specification as the journal keeps it (`entries.spec_document`). Raises StateError."""
    try:
        # Lists for tuples are JSON's; everything else was strict when it was written, and the chain proves it.
        return NodeSpec.model_validate(document, strict=False)
    except ValueError as e:
        raise StateError(
            "a node's specification in the journal cannot be read",
            hint="it may come from a newer fleetctl: use that one for this state",
            code="state.newer",
        ) from e

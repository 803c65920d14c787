"""A world of hosts in memory, for the engine: a driver that keeps a record per node, like the real ones do.

It counts what really happened to nodes (`starts`, `creates`), apart from what it answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from executors.driver import Operation, ProbeResult, ProbeTarget, Tell, silent
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from manifests.schema.host import Host
from manifests.secret import Secret
from planner.observed import HealthState, Loss, NodeState, ObservedHost, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin


@dataclass
class Node:
    uid: str
    name: str
    fleet: str
    host: str
    lineage: str
    epoch: int
    generation: int
    version: str
    digest: str
    fields: Mapping[str, str]
    running: bool = False
    exited: bool = False
    instance: int = 0
    destroyed: bool = False
    losses: tuple[Loss, ...] = ()
    answers: dict[str, tuple[str, Outcome]] = field(default_factory=dict)
    barred: set[str] = field(default_factory=set)


@dataclass
class World:
    """All hosts. `sick` versions never pass a probe; `dead` versions exit at once."""

    nodes: dict[str, Node] = field(default_factory=dict)
    sick: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    down_hosts: set[str] = field(default_factory=set)
    starts: Counter[tuple[str, int]] = field(default_factory=Counter)
    creates: Counter[tuple[str, int]] = field(default_factory=Counter)
    performed: Counter[str] = field(default_factory=Counter)
    stale_refused: int = 0
    log: list[str] = field(default_factory=list)
    on_change: Callable[[], None] | None = None
    answer: Callable[[Operation, Outcome], Outcome] | None = None
    before: Callable[[Operation], None] | None = None
    staged: set[tuple[str, str]] = field(default_factory=set)

    def driver(self, host: Host, substrate: str) -> FakeDriver:
        return FakeDriver(self, host.name)

    def healthy(self, node: Node) -> bool:
        return node.running and node.version not in self.sick

    def available(self) -> list[str]:
        return sorted(n.name for n in self.nodes.values() if self.healthy(n))

    def versions(self) -> dict[str, str]:
        return {n.name: n.version for n in self.nodes.values() if n.running}

    def changed(self) -> None:
        if self.on_change is not None:
            self.on_change()


class FakeDriver:
    def __init__(self, world: World, host: str) -> None:
        self.world = world
        self.host = host

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        if self.host in self.world.down_hosts:
            return ObservedHost(name=self.host, substrate="host", reachable=False, error="no route")
        nodes = tuple(
            self._observed(n) for n in self.world.nodes.values() if n.host == self.host and not n.destroyed
        )
        return ObservedHost(name=self.host, substrate="host", reachable=True, nodes=nodes)

    def _observed(self, n: Node) -> ObservedNode:
        state = NodeState.RUNNING if n.running else NodeState.EXITED if n.exited else NodeState.STOPPED
        return ObservedNode(
            uid=n.uid,
            fleet=n.fleet,
            name=n.name,
            lineage=n.lineage,
            epoch=n.epoch,
            generation=n.generation,
            version=n.version,
            digest=n.digest,
            fields=dict(n.fields),
            state=state,
            instance=str(n.instance),
            losses=n.losses,
        )

    def probe(self, target: ProbeTarget) -> ProbeResult:
        n = self.world.nodes.get(target.uid)
        if self.host in self.world.down_hosts:
            return ProbeResult(HealthState.UNKNOWN, "no route")
        if n is None or not self.world.healthy(n):
            return ProbeResult(HealthState.FAILING, "refused")
        return ProbeResult(HealthState.PASSING, "200 OK")

    def logs(self, uid: str, lines: int) -> str:
        return ""

    def close(self) -> None: ...

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        self.world.staged.add((self.host, pin.digest))

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        if self.world.before is not None:
            self.world.before(operation)
        if self.host in self.world.down_hosts:
            return failed("transport.unreachable", "no route", performed=0)
        outcome = self._guarded(operation)
        if self.world.answer is not None:
            outcome = self.world.answer(operation, outcome)
        return outcome

    def lookup(self, operation: Operation) -> Outcome:
        if self.host in self.world.down_hosts:
            return unknown("transport.unreachable", "no route")
        node = self.world.nodes.get(operation.uid)
        if node is None:
            return failed("fake.no_record", performed="no")
        known = node.answers.get(operation.operation_id)
        if known is None:
            node.barred.add(operation.operation_id)
            return failed("fake.not_performed", performed="no")
        return known[1]

    def _guarded(self, op: Operation) -> Outcome:
        world, node = self.world, self.world.nodes.get(op.uid)
        if node is not None:
            known = node.answers.get(op.operation_id)
            if known is not None:
                return known[1]
            if op.operation_id in node.barred:
                return rejected("fake.barred")
            if node.lineage != op.lineage and op.effect is not StepKind.ADOPT:
                return rejected("fake.other_lineage")
            if op.epoch < node.epoch:
                world.stale_refused += 1
                return rejected("fake.stale_epoch", f"epoch {op.epoch} < {node.epoch}")
            if op.generation < node.generation:
                return rejected("fake.stale_generation")
            if op.precondition is not None and node.generation != (op.precondition.generation or 0):
                return rejected("fake.precondition", f"generation {node.generation}")
        elif op.effect is not StepKind.CREATE:
            return rejected("fake.precondition", "no such node")
        outcome = self._act(op, node)
        node = self.world.nodes.get(op.uid)
        if node is not None:
            node.answers[op.operation_id] = (op.effect.value, outcome)
            node.epoch = max(node.epoch, op.epoch)
        world.performed[op.operation_id] += 1
        world.log.append(f"{op.effect.value} {op.node}#{op.generation}")
        world.changed()
        return outcome

    def _act(self, op: Operation, node: Node | None) -> Outcome:
        world = self.world
        if op.effect is StepKind.CREATE:
            world.creates[op.uid, op.generation] += 1
            if node is None:
                node = world.nodes[op.uid] = Node(
                    op.uid, op.node, op.fleet, op.spec.host, op.lineage, op.epoch, 0, "", "", {}
                )
            if node.running:
                return rejected("fake.running")
            node.generation, node.version, node.digest = (
                op.generation,
                op.spec.version,
                op.spec.artifact.digest,
            )
            node.fields, node.exited, node.destroyed = dict(op.fields), False, False
            return succeeded()
        assert node is not None
        if op.effect is StepKind.STOP:
            node.running = node.exited = False
            return succeeded()
        if op.effect is StepKind.START:
            if node.running:
                return rejected("fake.running")
            world.starts[op.uid, op.generation] += 1
            node.instance += 1
            node.running, node.exited = node.version not in world.dead, node.version in world.dead
            return succeeded(instance=str(node.instance))
        if op.effect is StepKind.DRAIN:
            return succeeded() if node.running else rejected("fake.not_running")
        if op.effect is StepKind.DESTROY:
            node.destroyed, node.running = True, False
            return succeeded()
        if op.effect is StepKind.ADOPT:
            node.lineage, node.epoch = op.lineage, op.epoch
            return succeeded()
        node.version, node.fields = op.spec.version, dict(op.fields)
        return succeeded(instance=str(node.instance))


def fetch(pin: ArtifactPin) -> Path:
    return Path(pin.source)


def no_secrets(ref: str) -> Secret:
    return Secret(f"value of {ref}")

"""The driver of a made-up host: the rules of a real one, and answers that get lost when the world says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from executors.command import Hear
from executors.driver import DriverError, Operation, ProbeResult, ProbeTarget, StagedArtifact, Tell, silent
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from executors.simulated import record
from executors.simulated.faults import Fault
from executors.simulated.record import Node
from executors.simulated.world import SimulatedWorld
from executors.transport import TransportError
from manifests.digest import digest_of
from manifests.secret import Secret
from planner.observed import HealthState, NodeState, ObservedHost, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin

FOLLOW_POLL_S = 0.01


class SimulatedDriver:
    """One made-up host of a `SimulatedWorld`, as Reader and as Driver."""

    def __init__(self, world: SimulatedWorld, host: str, substrate: str) -> None:
        self._world = world
        self._host = host
        self._substrate = substrate
        with world.nodes(host, substrate):
            pass

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        """The host's nodes; unreachable where the world says so."""
        self._world.take_time(f"observe/{self._host}")
        if self._host in self._world.unreachable:
            return ObservedHost(
                name=self._host, substrate=self._substrate, reachable=False, error="no answer (simulated)"
            )
        with self._world.nodes(self._host, self._substrate) as nodes:
            seen = [_observed(n) for n in nodes.values() if n.recorded and not n.destroyed]
        chosen = sorted((n for n in seen if not fleets or n.fleet in fleets), key=lambda n: n.uid)
        return ObservedHost(
            name=self._host,
            substrate=self._substrate,
            reachable=True,
            arch=self._world.arch,
            os="simulated",
            nodes=tuple(chosen),
        )

    def probe(self, target: ProbeTarget) -> ProbeResult:
        """Passing once the node's start-up time is over, unless its version is sick."""
        self._world.take_time(f"probe/{target.uid}")
        if self._host in self._world.unreachable:
            return ProbeResult(HealthState.UNKNOWN, "the host did not answer (simulated)")
        with self._world.nodes(self._host, self._substrate) as nodes:
            node = nodes.get(target.uid)
            if node is None or not node.alive:
                code = None if node is None else node.exit_code
                return ProbeResult(HealthState.FAILING, f"it has ended (exit status {code})")
            if target.instance not in (None, node.instance):
                return ProbeResult(HealthState.FAILING, f"another start of the node runs: {node.instance}")
            return self._answer(target, node)

    def _answer(self, target: ProbeTarget, node: Node) -> ProbeResult:
        health = target.spec.health
        if health.http is None and health.tcp is None and health.command is None:
            return ProbeResult(HealthState.NONE, "no probe is declared")
        sick = node.version in self._world.never_healthy or self._world.chance.happens(
            self._world.rates.never_healthy, f"healthy/{node.uid}/{node.instance}"
        )
        if sick or node.paused:
            return ProbeResult(HealthState.FAILING, "503 Service Unavailable (simulated)")
        due_s = self._world.rates.healthy_after_s_max * self._world.chance.fraction(
            f"ready/{node.uid}/{node.instance}"
        )
        if self._world.clock.monotonic() - node.started_s < due_s:
            return ProbeResult(HealthState.FAILING, "connection refused (simulated)")
        return ProbeResult(HealthState.PASSING, "200 OK (simulated)")

    def logs(self, uid: str, lines: int) -> str:
        """What the node's lifetimes have left."""
        with self._world.nodes(self._host, self._substrate) as nodes:
            return "\n".join(nodes[uid].log[-lines:]) if uid in nodes else ""

    def follow(self, uid: str, lines: int, hear: Hear) -> None:
        """The log, and what comes to it; until the node is destroyed."""
        at = None
        while True:
            with self._world.nodes(self._host, self._substrate) as nodes:
                node = nodes.get(uid)
                if node is None or not node.recorded or node.destroyed:
                    raise DriverError(f"there is no node {uid} on host {self._host}", code="host.absent")
                new = node.log[-lines:] if at is None else node.log[at:]
                at = len(node.log)
            for line in new:
                hear(f"{line}\n".encode(), False)
            self._world.clock.sleep(FOLLOW_POLL_S)

    def close(self) -> None:
        """Nothing is open."""

    def execute(self, uid: str, argv: Sequence[str], hear: Hear, timeout_s: float) -> int:
        """What the world answers to this command; 127 where it knows none."""
        del timeout_s
        if self._host in self._world.unreachable:
            raise TransportError(f"host {self._host} does not answer (simulated)")
        with self._world.nodes(self._host, self._substrate) as nodes:
            node = nodes.get(uid)
            if node is None or not node.recorded or node.destroyed:
                raise DriverError(f"there is no node {uid} on host {self._host}", code="host.absent")
        status, out, err = self._world.answers.get(tuple(argv), (127, b"", b"not found (simulated)\n"))
        for data, error in ((out, False), (err, True)):
            if data:
                hear(data, error)
        return status

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        """Takes time only; raises TransportError where the host does not answer."""
        del local_path, tell
        self._world.take_time(f"stage/{self._host}/{pin.digest}")
        if self._host in self._world.unreachable:
            raise TransportError(f"host {self._host} does not answer (simulated)")

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """The effect with its fault: refused, done, lost, or done and lost."""
        del secrets
        self._world.take_time(f"perform/{operation.operation_id}/{operation.attempt}")
        fault = self._world.fault(self._host, operation)
        lost = unknown("transport.outcome_lost", f"the answer was lost ({fault.value}, simulated)")
        match fault:
            case Fault.UNREACHABLE:
                return failed(
                    "transport.unreachable", f"host {self._host} does not answer (simulated)", performed=0
                )
            case Fault.LOST_BEFORE:
                return lost
            case Fault.LOST_LATE:
                self._world.send_late(self._host, self._substrate, operation)
                return lost
            case Fault.LOST_MIDDLE | Fault.LOST_AFTER | Fault.FAILS:
                answer = arrive(self._world, self._host, self._substrate, operation, fault)
                return answer if fault is Fault.FAILS else lost
            case Fault.NONE:
                return arrive(self._world, self._host, self._substrate, operation)

    def staged(self, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
        """Made-up hosts keep no bytes."""
        del pins
        return ()

    def unstage(self, artifact: StagedArtifact) -> str | None:
        """There is nothing to remove."""
        del artifact
        return None

    def lookup(self, operation: Operation) -> Outcome:
        """What became of it, from the record."""
        self._world.take_time(f"lookup/{operation.operation_id}/{operation.attempt}")
        if self._host in self._world.unreachable:
            return unknown("transport.unreachable", f"host {self._host} does not answer (simulated)")
        with self._world.nodes(self._host, self._substrate) as nodes:
            return record.lookup(nodes.setdefault(operation.uid, Node(operation.uid)), operation)


def arrive(
    world: SimulatedWorld, host: str, substrate: str, operation: Operation, fault: Fault = Fault.NONE
) -> Outcome:
    """The effect reaches the host: replayed, refused, or performed and recorded."""
    request = digest_of(
        {
            "effect": operation.effect.value,
            "generation": operation.generation,
            "spec": operation.spec.model_dump(mode="json"),
            "fields": dict(operation.fields),
        }
    )
    with world.nodes(host, substrate) as nodes:
        node = nodes.get(operation.uid) or Node(operation.uid)
        said = record.replay(node, operation, request) or record.refusal(node, operation)
        said = said or _impossible(node, operation)
        if said is not None:
            return said
        nodes[operation.uid] = node
        done = record.begin(node, operation, request)
        if fault is Fault.LOST_MIDDLE:
            return unknown("host.interrupted")
        if fault is Fault.FAILS:
            outcome = failed("host.simulated", "the host says that it failed (simulated)")
        else:
            outcome = _act(world, host, node, operation)
        done.state, done.code, done.detail = outcome.state.value, outcome.code, outcome.detail
        return Outcome(outcome.state, outcome.code, outcome.detail, {"instance": node.instance})


def _impossible(node: Node, operation: Operation) -> Outcome | None:
    """What the node's own state forbids."""
    effect = operation.effect
    if effect is StepKind.DESTROY and (not node.recorded or node.destroyed):
        return succeeded("host.already_absent", "it is gone already")
    if effect is StepKind.CREATE:
        again = node.last is not None and node.last.operation == operation.operation_id
        if node.placed and node.generation == operation.generation and not again:
            return rejected("host.stale_generation", "this generation was placed by another operation")
        return rejected("host.running", "the node runs; stop it first") if node.alive else None
    if not node.recorded:
        return rejected("host.absent", "there is no such node on the host")
    match effect:
        case StepKind.START if not node.placed:
            return rejected("host.not_placed", "nothing is placed here; create comes first")
        case StepKind.START if node.generation != operation.generation:
            return rejected("host.other_generation", f"generation {node.generation} is placed")
        case StepKind.START if node.alive:
            return rejected("host.running", f"the node runs already ({node.instance})")
        case StepKind.RELOAD | StepKind.DRAIN if not node.alive:
            return rejected("host.not_running", "the node does not run")
        case StepKind.DESTROY if node.alive:
            return rejected("host.running", "the node runs; stop it first")
        case _:
            return None


def _act(world: SimulatedWorld, host: str, node: Node, operation: Operation) -> Outcome:
    effect = operation.effect
    if effect is StepKind.STOP and not node.alive:
        node.want_running = False
        return succeeded("host.already_stopped")
    world.happened(host, operation)
    match effect:
        case StepKind.CREATE | StepKind.RELOAD:
            _take_identity(node, operation)
            if effect is StepKind.CREATE:
                node.want_running, node.instance, node.exit_code = False, None, None
            return succeeded()
        case StepKind.START:
            return _start(world, node, operation)
        case StepKind.DRAIN:
            node.log.append(f"{world.stamp()} drains")
            return succeeded("drain.drained")
        case StepKind.STOP:
            node.alive, node.want_running, node.exit_code = False, False, 0
            node.log.append(f"{world.stamp()} drained")
            return succeeded("host.drained")
        case StepKind.DESTROY:
            node.destroyed, node.placed = True, False
            node.data_kept = operation.retain_data and operation.spec.data is not None
            return succeeded()
        case _:
            node.fleet, node.name = operation.fleet, operation.node
            return succeeded("", f"taken over from {node.past_lineage or 'the same state'}")


def _take_identity(node: Node, operation: Operation) -> None:
    spec = operation.spec
    node.fleet, node.name = operation.fleet, operation.node
    node.generation, node.version, node.digest = operation.generation, spec.version, spec.artifact.digest
    node.fields, node.port, node.placed = dict(operation.fields), spec.port, True


def _start(world: SimulatedWorld, node: Node, operation: Operation) -> Outcome:
    node.want_running = True
    node.instance = f"{operation.operation_id}.{operation.attempt}"
    node.started_at, node.started_s = world.stamp(), world.clock.monotonic()
    node.log.append(f"{world.stamp()} {node.version} starts")
    exits = node.version in world.exits_at_once or world.chance.happens(
        world.rates.exits_at_once, f"exits/{node.uid}/{node.instance}"
    )
    if exits:
        node.alive, node.exit_code = False, 1
        node.log.append(f"{world.stamp()} exits with 1")
        return failed(
            "process.exited", "it ended at once with exit status 1; its last lines:\n    " + node.log[-1]
        )
    node.alive, node.paused, node.exit_code = True, False, None
    return succeeded()


def _observed(node: Node) -> ObservedNode:
    if node.alive:
        state = NodeState.PAUSED if node.paused else NodeState.RUNNING
    else:
        state = NodeState.EXITED if node.want_running else NodeState.STOPPED
    last = node.last
    assert last is not None
    return ObservedNode(
        uid=node.uid,
        fleet=node.fleet,
        name=node.name,
        lineage=node.lineage,
        epoch=node.epoch,
        generation=node.generation,
        version=node.version,
        digest=node.digest,
        fields=dict(node.fields),
        state=state,
        instance=node.instance,
        started_at=node.started_at,
        operation=last.operation,
        attempt=last.attempt,
        phase="done" if last.state else "begun",
        port=node.port,
        exit_code=node.exit_code,
        detail="" if node.exit_code is None else f"it ended with exit status {node.exit_code}",
    )

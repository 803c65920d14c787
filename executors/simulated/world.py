"""The simulated world: made-up hosts with their nodes, and the hands of a test in it.

world = SimulatedWorld(seed=7, rates=Rates(lost_after=0.1))
registry.driver(host, "host", world.factory)
"""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from executors.clock import Clock, SystemClock, rfc3339
from executors.driver import Driver, DriverError, Operation
from executors.simulated.chance import Chance
from executors.simulated.faults import Fault, Rates, Trouble
from executors.simulated.record import Done, Node
from manifests.schema.host import Host
from planner.plan import StepKind

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect that really happened in the world, for counting."""

    host: str
    effect: StepKind
    uid: str
    node: str
    generation: int
    operation: str
    attempt: int


class SimulatedWorld:
    """Hosts in memory, or in a JSON file when `path` is given (then several processes see one world).

    Thread-safe: one lock over the world, never held while latency passes. Faults come from `seed` and
    `rates`, and from `trouble`, which a test fills.
    """

    def __init__(
        self,
        seed: int = 0,
        rates: Rates | None = None,
        clock: Clock | None = None,
        path: Path | None = None,
    ) -> None:
        self.chance = Chance(seed)
        self.rates = rates or Rates()
        self.clock: Clock = clock or SystemClock()
        self.trouble: list[Trouble] = []
        self.effects: list[Effect] = []
        self.exits_at_once: set[str] = set()
        """Versions whose nodes exit at once."""
        self.never_healthy: set[str] = set()
        """Versions whose nodes never pass a probe."""
        self.unreachable: set[str] = set()
        """Names of hosts that do not answer."""
        self.answers: dict[tuple[str, ...], tuple[int, bytes, bytes]] = {}
        """What commands in a node answer: exit status, output, errors."""
        self.arch = "x86_64"
        self._hosts: dict[Key, dict[str, Node]] = {}
        self._late: list[tuple[str, str, Operation]] = []
        self._calls: dict[str, int] = {}
        self._path = path
        self._lock = threading.RLock()

    def factory(self, host: Host, substrate: str) -> Driver:
        """What `executors.registry` takes in place of real drivers."""
        return self.driver(host.name, substrate)

    def driver(self, host: str, substrate: str = "host") -> Driver:
        """The driver of a made-up host, which is there from then on."""
        from executors.simulated.driver import SimulatedDriver

        return SimulatedDriver(self, host, substrate)

    @contextmanager
    def nodes(self, host: str, substrate: str) -> Iterator[dict[str, Node]]:
        """The nodes of a host by uid, under the world's lock; what is changed stays changed."""
        with self._lock:
            if self._path is None:
                yield self._hosts.setdefault((host, substrate), {})
                return
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._hosts = _load(self._path)
                yield self._hosts.setdefault((host, substrate), {})
                _save(self._path, self._hosts)

    def node(self, uid: str) -> Node:
        """One node, wherever it is, for a test to look at or to change by hand; raises DriverError."""
        for host, substrate in list(self._hosts):
            with self.nodes(host, substrate) as nodes:
                if uid in nodes:
                    return nodes[uid]
        raise DriverError(f"the simulated world has no node {uid}")

    def kill(self, uid: str, exit_code: int = 137) -> None:
        """The node's process dies by itself, as far as fleetctl is concerned."""
        with self._lock:
            for host, substrate in list(self._hosts):
                with self.nodes(host, substrate) as nodes:
                    if uid in nodes:
                        nodes[uid].alive = False
                        nodes[uid].exit_code = exit_code

    def edit(self, uid: str, name: str, value: str | None) -> None:
        """Somebody changes a managed field by hand; None takes it away."""
        with self._lock:
            for host, substrate in list(self._hosts):
                with self.nodes(host, substrate) as nodes:
                    if uid in nodes and value is None:
                        nodes[uid].fields.pop(name, None)
                    elif uid in nodes and value is not None:
                        nodes[uid].fields[name] = value

    def starts(self, uid: str) -> int:
        """How often a node was really started."""
        return sum(1 for e in self.effects if e.uid == uid and e.effect is StepKind.START)

    def happened(self, host: str, operation: Operation) -> None:
        """Counts an effect that really took place."""
        with self._lock:
            self.effects.append(
                Effect(
                    host,
                    operation.effect,
                    operation.uid,
                    operation.node,
                    operation.generation,
                    operation.operation_id,
                    operation.attempt,
                )
            )

    def fault(self, host: str, operation: Operation) -> Fault:
        """What goes wrong with this call. The same seed, operation and count of calls give the same fault."""
        with self._lock:
            if host in self.unreachable:
                return Fault.UNREACHABLE
            for trouble in self.trouble:
                if trouble.matches(operation.effect, operation.node, host):
                    if trouble.times is not None:
                        trouble.times -= 1
                    return trouble.fault
            question = self._question(f"{operation.operation_id}/{operation.attempt}")
        drawn = self.chance.fraction(question)
        for fault, rate in self.rates.order():
            if drawn < rate:
                return fault
            drawn -= rate
        return Fault.NONE

    def take_time(self, what: str) -> None:
        """Lets the latency of one call pass."""
        if self.rates.latency_s_max > 0:
            with self._lock:
                question = self._question(f"latency/{what}")
            self.clock.sleep(self.chance.fraction(question) * self.rates.latency_s_max)

    def send_late(self, host: str, substrate: str, operation: Operation) -> None:
        """Keeps an effect on its way until `deliver`."""
        with self._lock:
            self._late.append((host, substrate, operation))

    def deliver(self) -> int:
        """All effects that were on their way arrive now; how many."""
        from executors.simulated.driver import arrive

        with self._lock:
            late, self._late = self._late, []
        for host, substrate, operation in late:
            arrive(self, host, substrate, operation)
        return len(late)

    def stamp(self) -> str:
        """The world's time, RFC 3339."""
        return rfc3339(self.clock.now())

    def _question(self, what: str) -> str:
        """A question that is new each time it is asked, and the same in every run."""
        self._calls[what] = self._calls.get(what, 0) + 1
        return f"{what}#{self._calls[what]}"


def _load(path: Path) -> dict[Key, dict[str, Node]]:
    if not path.exists():
        return {}
    hosts: dict[Key, dict[str, Node]] = {}
    for key, nodes in json.loads(path.read_text(encoding="utf-8")).items():
        host, _, substrate = key.partition("/")
        hosts[host, substrate] = {uid: _node(data) for uid, data in nodes.items()}
    return hosts


def _node(data: dict[str, object]) -> Node:
    last, past, barred = data.pop("last"), data.pop("past"), data.pop("barred")
    assert isinstance(past, list)
    assert isinstance(barred, list)
    return Node(
        **data,  # type: ignore[arg-type]
        last=Done(**last) if isinstance(last, dict) else None,
        past=[Done(**d) for d in past],
        barred=[(op, attempt) for op, attempt in barred],
    )


def _save(path: Path, hosts: dict[Key, dict[str, Node]]) -> None:
    data = {
        f"{host}/{substrate}": {uid: asdict(node) for uid, node in nodes.items()}
        for (host, substrate), nodes in hosts.items()
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1), encoding="utf-8")
    partial.replace(path)

"""Observes every host at once, within bounds: what was seen, and when.

A host that does not answer is a fact about that host, and hides nobody else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from executors.clock import Clock, rfc3339
from executors.driver import ProbeResult, ProbeTarget, Reader
from manifests.errors import FleetctlError
from planner.observed import HealthState, NodeState, ObservedHost, ObservedNode, Snapshot
from planner.spec import NodeSpec

# One process looks at thousands of hosts; more than this at once only queues in the kernel and in sshd.
PARALLEL_MAX = 32
# A host that takes longer than this to say what runs on it is treated as one that does not answer.
HOST_DEADLINE_S = 90.0


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One host and substrate, and how its reader is made; making it may raise FleetctlError."""

    host: str
    substrate: str
    open: Callable[[], Reader]


def observe(
    places: Sequence[Place],
    *,
    clock: Clock,
    fleets: frozenset[str] = frozenset(),
    specs: Mapping[str, NodeSpec] | None = None,
    parallel: int = PARALLEL_MAX,
    deadline_s: float = HOST_DEADLINE_S,
) -> Snapshot:
    """Observes all places in parallel and probes the running nodes whose spec is known (`specs` by uid).

    Hosts come in the order of their names, whatever answered first. Readers are closed. `fleets` empty means
    every fleet. A place that raises or passes `deadline_s` is reported unreachable with its error.
    """
    taken_at = rfc3339(clock.now())
    known = specs or {}
    answers: dict[Place, ObservedHost] = {}
    waiting = deque(places)
    workers = [
        threading.Thread(
            target=_work, args=(waiting, answers, fleets, known), name=f"observe-{n}", daemon=True
        )
        for n in range(min(max(1, parallel), len(places)))
    ]
    for worker in workers:
        worker.start()
    # Rounds of `parallel` hosts may each take their deadline.
    until = clock.monotonic() + deadline_s * -(-len(places) // max(1, parallel))
    for worker in workers:
        worker.join(max(0.0, until - clock.monotonic()))
    waiting.clear()
    late = f"no answer within {deadline_s:g} s"
    hosts = [answers.get(place) or _unreachable(place, late) for place in places]
    return Snapshot(taken_at=taken_at, hosts=tuple(sorted(hosts, key=lambda h: (h.name, h.substrate))))


def _work(
    waiting: deque[Place],
    answers: dict[Place, ObservedHost],
    fleets: frozenset[str],
    specs: Mapping[str, NodeSpec],
) -> None:
    """One of the threads. They are daemons: a host that hangs must not keep the whole command from ending."""
    while waiting:
        try:
            place = waiting.popleft()
        except IndexError:
            return
        answers[place] = _observe_place(place, fleets, specs)


def _unreachable(place: Place, error: str) -> ObservedHost:
    return ObservedHost(name=place.host, substrate=place.substrate, reachable=False, error=error)


def _observe_place(place: Place, fleets: frozenset[str], specs: Mapping[str, NodeSpec]) -> ObservedHost:
    try:
        reader = place.open()
    except FleetctlError as e:
        return _unreachable(place, e.message)
    try:
        host = reader.observe(fleets)
        return _with_health(reader, host, specs)
    except (FleetctlError, OSError) as e:
        return _unreachable(place, str(e))
    finally:
        reader.close()


def _with_health(reader: Reader, host: ObservedHost, specs: Mapping[str, NodeSpec]) -> ObservedHost:
    """The same host with a probe's answer for each running node whose spec is known."""
    running = [n for n in host.nodes if n.state is NodeState.RUNNING and n.uid in specs]
    if not running:
        return host
    with ThreadPoolExecutor(max_workers=min(8, len(running)), thread_name_prefix="probe") as pool:
        answers = dict(
            zip(
                (n.uid for n in running),
                pool.map(lambda n: reader.probe(ProbeTarget(n.uid, specs[n.uid], n.instance)), running),
                strict=True,
            )
        )
    return host.model_copy(
        update={"nodes": tuple(_probed(n, answers[n.uid]) if n.uid in answers else n for n in host.nodes)}
    )


def _probed(node: ObservedNode, answer: ProbeResult) -> ObservedNode:
    detail = node.detail if answer.state is HealthState.NONE else answer.detail
    return node.model_copy(update={"health": answer.state, "detail": detail})

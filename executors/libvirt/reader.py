"""What can look at a libvirt and change nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO
from xml.etree import ElementTree as ET

from executors.clock import Clock
from executors.command import Command, Completed
from executors.driver import DriverError, ProbeResult, ProbeTarget
from executors.health import probe as probe_by_transport
from executors.libvirt import agent, names, observe
from executors.libvirt.address import routable
from executors.libvirt.connection import Connection
from executors.libvirt.definition import domain_of
from executors.libvirt.evidence import State
from executors.libvirt.observe import Seen
from executors.libvirt.pool import Pool
from executors.libvirt.read_back import Surroundings
from executors.transport import Transport
from manifests.schema.host import Libvirt
from planner.observed import HealthState, ObservedHost, ObservedNode

LOG_MAX_B = 64 * 1024
# An agent that says nothing for so long is not there; without a bound libvirt waits for ever.
AGENT_TIMEOUT_S = 5
TEST_KIND = "test"
"""The one kind of domain that libvirt's test hypervisor has."""


class LibvirtReader:
    """One libvirt. `uri` gives the place of its socket when it is needed; `transport` carries probes."""

    def __init__(
        self,
        host: str,
        settings: Libvirt,
        uri: Callable[[], str],
        transport: Transport,
        clock: Clock,
    ) -> None:
        self._host = host
        self._transport = transport
        self._clock = clock
        self._connection = Connection(f"host/{host}", uri, clock, settings.timeout / 1000)
        self._libvirt = self._connection.libvirt
        self._pool = Pool(settings.pool, settings.pool_path, self._libvirt, clock)
        self._kind = TEST_KIND if settings.uri.startswith("test:") else None

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        try:
            return self._connection.read(lambda connection: self._observed(connection, fleets))
        except DriverError as e:
            return self._unreachable(e.message)
        except (self._libvirt.libvirtError, OSError) as e:
            return self._unreachable(str(e))

    def probe(self, target: ProbeTarget) -> ProbeResult:
        try:
            return self._connection.read(lambda connection: self._probed(connection, target))
        except (DriverError, self._libvirt.libvirtError) as e:
            return ProbeResult(HealthState.UNKNOWN, f"libvirt did not answer: {e}")

    def logs(self, uid: str, lines: int) -> str:
        try:
            data = self._connection.read(
                lambda connection: self._pool.tail(connection, names.console(uid), LOG_MAX_B)
            )
        except (DriverError, self._libvirt.libvirtError):
            return ""
        return "\n".join(data.decode("utf-8", "replace").replace("\r", "").splitlines()[-lines:])

    def close(self) -> None:
        self._connection.close()
        self._transport.close()

    def _unreachable(self, why: str) -> ObservedHost:
        return ObservedHost(name=self._host, substrate="qemu", reachable=False, error=why)

    def _observed(self, connection: Any, fleets: frozenset[str]) -> ObservedHost:
        found = self._pool.look(connection)
        sizes = None if found is None else self._pool.sizes(found)
        nodes = self._nodes(connection, fleets, sizes)
        return ObservedHost(
            name=self._host,
            substrate="qemu",
            reachable=True,
            arch=connection.getInfo()[0],
            os="linux",
            nodes=tuple(sorted(nodes, key=lambda n: n.uid)),
        )

    def _nodes(
        self, connection: Any, fleets: frozenset[str], volumes: Mapping[str, int | None] | None
    ) -> Iterator[ObservedNode]:
        for domain in connection.listAllDomains(0):
            try:
                node = self._node(domain, volumes)
            except self._libvirt.libvirtError as e:
                if e.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                    continue  # it went away between the list and the look
                raise
            if node is not None and (not fleets or node.fleet in fleets):
                yield node

    def _node(self, domain: Any, volumes: Mapping[str, int | None] | None) -> ObservedNode | None:
        seen = self._seen(domain)
        if not observe.is_ours(seen):
            return None
        try:
            ours = seen.ours
        except ValueError:
            ours = None  # damaged, and told so
        by = ours.by if ours is not None and seen.active else "static"
        around = Surroundings(bool(domain.autostart()), volumes, self._kind)
        return observe.node(seen, around, self._found(domain, by))

    def _seen(self, domain: Any) -> Seen:
        """One look at a domain: its state, and what runs beside what is defined."""
        state, reason = domain.state(0)
        persistent = bool(domain.isPersistent())
        active = state in observe.ACTIVE
        live = _parsed(domain.XMLDesc(0)) if active else None
        inactive = self._libvirt.VIR_DOMAIN_XML_INACTIVE
        defined = _parsed(domain.XMLDesc(inactive)) if persistent or live is None else live
        return Seen(
            uuid=domain.UUIDString(),
            state=state,
            reason=reason,
            number=domain.ID() if active else -1,
            defined=defined,
            live=live,
            persistent=persistent,
        )

    def _domain(self, connection: Any, uid: str) -> Any:
        """The node's domain, or None."""
        try:
            return connection.lookupByUUIDString(names.domain_uuid(uid))
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _state(self, connection: Any, uid: str) -> State | None:
        """The node's domain as it is now, or None when there is none. Raises ValueError when it is damaged."""
        domain = self._domain(connection, uid)
        if domain is None:
            return None
        seen = self._seen(domain)
        return State(seen, seen.ours)

    def _found(self, domain: Any, by: str) -> str | None:
        """The guest's address by lease or agent; None while nobody knows it, or where it is static."""
        sources = {
            "lease": self._libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
            "agent": self._libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
        }
        if by not in sources:
            return None
        try:
            if by == "agent":
                domain.agentSetResponseTimeout(AGENT_TIMEOUT_S, 0)
            return routable(domain.interfaceAddresses(sources[by], 0))
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return None  # no agent yet, or no network that gives leases

    def _probed(self, connection: Any, target: ProbeTarget) -> ProbeResult:
        domain = self._domain(connection, target.uid)
        if domain is None:
            return ProbeResult(HealthState.FAILING, "the domain is gone")
        state, reason = domain.state(0)
        if state not in (observe.RUNNING, observe.BLOCKED):
            return ProbeResult(HealthState.FAILING, f"the domain is {observe.state_words(state, reason)}")
        if target.instance is not None and not target.instance.startswith(
            observe.first_of_instance(domain.ID())
        ):
            return ProbeResult(HealthState.FAILING, "it was started again since")
        spec = target.spec
        by = domain_of(spec).address.by
        if by != "static" and (spec.health.http is not None or spec.health.tcp is not None):
            address = self._found(domain, by)
            if address is None:
                return ProbeResult(HealthState.FAILING, f"no address yet (by {by})")
            target = replace(target, spec=spec.model_copy(update={"address": address}))

        def check(command: tuple[str, ...], timeout_s: float) -> ProbeResult:
            return agent.check(domain, command, timeout_s, self._clock, self._libvirt)

        return probe_by_transport(_ToGuest(self._transport), target, check)


class _ToGuest:
    """The host's transport, which must not take the host's own loopback for the guest."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def run(self, command: Command) -> Completed:
        return self._transport.run(command)

    def put(self, source: BinaryIO, size_b: int, digest: str, path: str, mode: int = 0o644) -> None:
        self._transport.put(source, size_b, digest, path, mode)

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        if address.startswith("127."):
            raise ConnectionRefusedError(f"{address} is the host, not the guest")
        return self._transport.connect(address, port, timeout_s)

    def close(self) -> None:
        self._transport.close()


def _parsed(xml: str) -> ET.Element:
    return ET.fromstring(xml)  # noqa: S314 - libvirt's own answer; expat bounds what entities may become

"""What can look at a libvirt and change nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from executors.clock import Clock
from executors.command import Command, Completed, Hear
from executors.driver import DriverError, ProbeResult, ProbeTarget
from executors.health import probe as probe_by_transport
from executors.libvirt import agent, domains, kept, names, observe
from executors.libvirt.address import routable
from executors.libvirt.connection import Connection
from executors.libvirt.definition import domain_of
from executors.libvirt.domains import Listed
from executors.libvirt.pool import Pool
from executors.libvirt.read_back import Surroundings
from executors.transport import Transport
from manifests.schema.host import Libvirt
from planner.observed import HealthState, ObservedHost, ObservedNode

LOG_MAX_B = 64 * 1024
# How often a console's log is looked at: each look asks libvirt for the volume.
CONSOLE_POLL_S = 1.0
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
            return self._unreachable(e.message if e.hint is None else f"{e.message} ({e.hint})")
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

    def follow(self, uid: str, lines: int, hear: Hear) -> None:
        """The last lines of the guest's console, then what comes: its log is looked at again and again."""
        self._connection.read(lambda connection: self._known(connection, uid))
        data, at = self._console(uid, 0)
        data = b"".join(data.splitlines(keepends=True)[-lines:])
        while True:
            if data:
                hear(data.replace(b"\r", b""), False)
            self._clock.sleep(CONSOLE_POLL_S)
            data, at = self._console(uid, at)

    def _known(self, connection: Any, uid: str) -> Any:
        """The node's domain. Raises DriverError."""
        domain = domains.find(connection, uid, self._libvirt)
        if domain is None:
            raise DriverError(f"there is no domain of node {uid} on host {self._host}", code="libvirt.absent")
        return domain

    def _console(self, uid: str, at: int) -> tuple[bytes, int]:
        """What the console's log has from this position on, and where it ends."""
        try:
            return self._connection.read(
                lambda connection: self._pool.since(connection, names.console(uid), at, LOG_MAX_B)
            )
        except self._libvirt.libvirtError as e:
            raise DriverError(f"host/{self._host}: the console's log cannot be read: {e}") from e

    def close(self) -> None:
        self._connection.close()
        self._transport.close()

    def _unreachable(self, why: str) -> ObservedHost:
        return ObservedHost(name=self._host, substrate="qemu", reachable=False, error=why)

    def _observed(self, connection: Any, fleets: frozenset[str]) -> ObservedHost:
        found = self._pool.look(connection)
        listed = list(domains.all_of(connection, self._libvirt))
        wanted = [name for each in listed for name in observe.measured(each.seen)]
        sizes = None if found is None else self._pool.sizes(found, wanted)
        nodes = (self._node(each, sizes) for each in listed)
        return ObservedHost(
            name=self._host,
            substrate="qemu",
            reachable=True,
            arch=self._connection.arch(connection),
            os="linux",
            nodes=tuple(
                sorted((n for n in nodes if not fleets or n.fleet in fleets), key=lambda node: node.uid)
            ),
        )

    def _node(self, listed: Listed, volumes: Mapping[str, int | None] | None) -> ObservedNode:
        seen = listed.seen
        try:
            ours = seen.ours
        except ValueError:
            ours = None  # damaged, and told so
        by = ours.by if ours is not None and seen.active else "static"
        around = Surroundings(listed.autostart, volumes, self._kind)
        node = observe.node(seen, around, self._found(listed.domain, by))
        return node.model_copy(update={"losses": kept.losses(listed.kept)})

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
            if self._connection.lost(e):
                raise
            return None  # no agent yet, no network that gives leases, or gone meanwhile

    def _probed(self, connection: Any, target: ProbeTarget) -> ProbeResult:
        domain = domains.find(connection, target.uid, self._libvirt)
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

        return probe_by_transport(ToGuest(self._transport), target, check)


class ToGuest:
    """The host's transport, which must not take the host's own loopback for the guest."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def run(self, command: Command) -> Completed:
        return self._transport.run(command)

    def stream(self, command: Command, hear: Hear) -> Completed:
        return self._transport.stream(command, hear)

    def put(self, source: BinaryIO, size_b: int, digest: str, path: str, mode: int = 0o644) -> None:
        self._transport.put(source, size_b, digest, path, mode)

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        if address.startswith("127."):
            raise ConnectionRefusedError(f"{address} is the host, not the guest")
        return self._transport.connect(address, port, timeout_s)

    def close(self) -> None:
        self._transport.close()

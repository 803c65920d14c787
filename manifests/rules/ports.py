"""Ports: no two nodes of one machine share one, and none lies past the last.

Only what the manifests fix is judged: a node's own port, and port + number in counted groups. What is left
to placement (a named node without a port) takes the lowest free one there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from manifests.manifest import Manifests, Path
from manifests.rules.review import Review, fleet_key
from manifests.schema.base import PORT_MAX
from manifests.schema.fleet import Fleet, Group


@dataclass(frozen=True, slots=True)
class _Taken:
    fleet: Fleet
    node: str
    path: Path


def check(review: Review) -> None:
    """Every rule about ports, over all fleets: they may share hosts."""
    taken: dict[tuple[str, int], _Taken] = {}
    machines = _machines(review.manifests)
    for fleet in review.manifests.fleets.values():
        key = fleet_key(fleet)
        for i, group in enumerate(fleet.groups):
            if group.count and group.port is not None and group.port + group.count - 1 > PORT_MAX:
                review.error(
                    "port.range",
                    "A group's ports go past the last one",
                    f"{group.count} nodes from port {group.port} would end at {group.port + group.count - 1}; "
                    f"the last port is {PORT_MAX}.",
                    key,
                    ("groups", i, "port"),
                    f"start at {PORT_MAX + 1 - group.count} or lower",
                )
                continue
            for node, host, port, path in _ports(i, group):
                machine = (machines.get(host, host), port)
                other = taken.get(machine)
                if other is None:
                    taken[machine] = _Taken(fleet, node, path)
                    continue
                review.error(
                    "port.taken",
                    "Two nodes cannot share a port",
                    f"Port {port} on {host} is asked for by {fleet.name}/{node} and by {other.fleet.name}/{other.node} "
                    f"({review.place(fleet_key(other.fleet), other.path)}).",
                    key,
                    path,
                    "give one of them a port of its own, or its group another first port",
                )
                break


def _machines(manifests: Manifests) -> dict[str, str]:
    """Hosts that are this machine share its ports, whatever they are called."""
    here = {
        name: "this machine"
        for name, host in manifests.hosts.items()
        if host.ssh is None and (host.docker is None or host.docker.url.startswith("unix:"))
    }
    return {name: here.get(name, name) for name in manifests.hosts}


def _ports(i: int, group: Group) -> Iterator[tuple[str, str, int, Path]]:
    """Node, host, port and the place that fixes it, for every node whose port is fixed."""
    if group.nodes is not None:
        for j, node in enumerate(group.nodes):
            if node.port is not None and (node.host is not None or group.hosts):
                host = node.host if node.host is not None else group.hosts[j % len(group.hosts)]
                yield node.name, host, node.port, ("groups", i, "nodes", j, "port")
    elif group.port is not None and group.hosts:
        path: Path = ("groups", i, "port")
        for n in range(group.count or 0):
            yield f"{group.name}-{n}", group.hosts[n % len(group.hosts)], group.port + n, path

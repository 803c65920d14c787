"""Which nodes a fleet has, and where: names, hosts, ports and uids, sticky from what is recorded.

Identity is the name, never a position in a list. A node that has a place keeps it; only an explicit
`host:` moves one, as the end of the old node and a new one, and never one with data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from manifests.diagnostics import error
from manifests.manifest import Path
from manifests.schema.base import PORT_MAX
from manifests.schema.fleet import Group, Node
from planner.recorded import RecordedNode, derive_uid
from planner.sight import Seen
from planner.situation import Findings, Situation


@dataclass(slots=True)
class Placed:
    """A node with its place. `path` leads to what declares it; `index` is its number in a counted group."""

    name: str
    uid: str
    host: str
    port: int | None
    group: Group
    group_index: int
    path: Path
    node: Node | None = None
    index: int | None = None
    recorded: RecordedNode | None = None


def place(situation: Situation, findings: Findings) -> list[Placed]:
    """The nodes of the fleet in the manifest's order, each with host, port and uid."""
    live = situation.recorded.live()
    uids = {n.uid for n in situation.recorded.nodes.values()} | set(situation.sight.by_uid)
    ours = {n.uid for n in live.values()}
    kept_ports: set[str] = set()
    placed = []
    for group_index, group in enumerate(situation.fleet.groups):
        for name, path, node, index in _declared(group_index, group):
            recorded = live.get(name)
            seen = None if recorded else situation.sight.by_name.get(name)
            if seen is not None and seen.node.uid in ours:
                seen = None  # it is another node of this fleet, which had the name before it was moved
            recorded, host = _host(situation, findings, group, node, index, path, recorded, seen)
            if host not in situation.manifests.hosts:
                _no_host(situation, findings, name, host, path, kept=recorded is not None or seen is not None)
                continue
            if recorded is not None:
                uid = recorded.uid
            elif seen is not None and seen.host == host and seen.substrate == group.substrate:
                uid = seen.node.uid
            else:
                uid = _new_uid(situation.name, name, uids)
                seen = None
            port = _kept_port(group, node, index, recorded, seen)
            if index is not None and group.port is not None and port != group.port + index:
                kept_ports.add(group.name)
            placed.append(Placed(name, uid, host, port, group, group_index, path, node, index, recorded))
    for group_name in sorted(kept_ports):
        findings.warn(
            f"group {group_name}: nodes keep the ports they have; a new first port is for new nodes"
        )
    _give_ports(situation, findings, placed)
    return placed


def _declared(group_index: int, group: Group) -> Iterator[tuple[str, Path, Node | None, int | None]]:
    if group.nodes is not None:
        for i, node in enumerate(group.nodes):
            yield node.name, ("groups", group_index, "nodes", i), node, None
    else:
        path: Path = ("groups", group_index, "count")
        for i in range(group.count or 0):
            yield f"{group.name}-{i}", path, None, i


def _host(
    situation: Situation,
    findings: Findings,
    group: Group,
    node: Node | None,
    index: int | None,
    path: Path,
    recorded: RecordedNode | None,
    seen: Seen | None,
) -> tuple[RecordedNode | None, str]:
    """The node's host, and the record that goes on being its own (none: it becomes another node there)."""
    wanted = node.host if node is not None else None
    if recorded is None:
        if seen is not None and wanted in (None, seen.host):
            return None, seen.host
        if wanted is not None:
            return None, wanted
        # Explicit nodes take their place by position only once, when they are first placed.
        position = index if index is not None else int(path[-1])
        return None, group.hosts[position % len(group.hosts)]
    substrate = recorded.spec.substrate if recorded.spec is not None else group.substrate
    moved = wanted is not None and wanted != recorded.host
    if not moved and substrate == group.substrate:
        if wanted is None and recorded.host not in group.hosts:
            findings.warn(
                f"{recorded.name} stays on {recorded.host}, which group {group.name} does not list any more"
            )
        return recorded, recorded.host
    what = f"from {recorded.host} to {wanted}" if moved else f"from {substrate} to {group.substrate}"
    if group.data is not None or (recorded.spec is not None and recorded.spec.data is not None):
        findings.refuse(
            "placement.data-stays",
            "A node with data does not move",
            f"{recorded.name} would go {what}; its data is on {recorded.host} and would not follow",
            place=situation.place(*path, "host") if moved else situation.place(*path),
            hint=f"give it back its place, or remove {recorded.name} first and add it again, "
            "and carry its data over by hand",
        )
        return recorded, recorded.host
    return None, wanted if wanted is not None else recorded.host


def _no_host(
    situation: Situation, findings: Findings, name: str, host: str, path: Path, *, kept: bool
) -> None:
    why = "is placed there" if kept else "is to be placed there"
    findings.errors.append(
        error(
            "host.unknown",
            "No such host",
            f"no document of kind Host is named {host}, and {name} {why}",
            span=situation.manifests.where(situation.key, path),
            hint=f"add a document of kind Host with name: {host}"
            + (f", or remove {name} while the host is still declared" if kept else ""),
            path=".".join(map(str, path)),
        )
    )


def _new_uid(fleet: str, name: str, uids: set[str]) -> str:
    ordinal = 0
    while (uid := derive_uid(fleet, name, ordinal)) in uids:
        ordinal += 1
    uids.add(uid)
    return uid


def _kept_port(
    group: Group, node: Node | None, index: int | None, recorded: RecordedNode | None, seen: Seen | None
) -> int | None:
    """The port that is settled before any is given out: its own, the one it has, or its number's."""
    if node is not None and node.port is not None:
        return node.port
    if recorded is not None and recorded.port is not None:
        return recorded.port
    if seen is not None and seen.node.port is not None:
        return seen.node.port
    if index is not None and group.port is not None:
        return group.port + index
    return None


def _give_ports(situation: Situation, findings: Findings, placed: list[Placed]) -> None:
    """Takes the settled ports, then gives the others the lowest free one from their group's first."""
    taken = situation.taken
    for p in placed:
        if p.port is not None:
            _take(situation, findings, p, p.port)
    for p in placed:
        if p.port is None and p.group.port is not None:
            port = p.group.port
            while (p.host, port) in taken:
                port += 1
            p.port = port
            _take(situation, findings, p, port)


def _take(situation: Situation, findings: Findings, placed: Placed, port: int) -> None:
    owner = f"{situation.name}/{placed.name}"
    other = situation.taken.setdefault((placed.host, port), owner)
    if other == owner and port <= PORT_MAX:
        return
    what = f"port {port} on {placed.host} is given to {other} and to {owner}"
    if port > PORT_MAX:
        what = f"{owner} would get port {port}, and the last one is {PORT_MAX}"
    findings.errors.append(
        error(
            "port.taken" if port <= PORT_MAX else "port.range",
            "Two nodes cannot share a port" if port <= PORT_MAX else "No port is left",
            what,
            span=situation.manifests.where(situation.key, placed.path),
            hint="give one of them a port of its own, or another first port to its group",
            path=".".join(map(str, placed.path)),
        )
    )

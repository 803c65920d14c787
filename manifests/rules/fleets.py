"""Groups and nodes of a fleet: how many, their names, where they are placed."""

from __future__ import annotations

from manifests.address import is_name
from manifests.manifest import Path
from manifests.rules.review import Review, fleet_key, listed, size
from manifests.schema.fleet import NODES_MAX, Fleet, Group
from manifests.suggest import did_you_mean


def check(review: Review) -> None:
    """Every rule about groups and nodes, for every fleet."""
    for fleet in review.manifests.fleets.values():
        _numbers(review, fleet)
        _names(review, fleet)
        for i, group in enumerate(fleet.groups):
            _hosts(review, fleet, i, group)


def _numbers(review: Review, fleet: Fleet) -> None:
    key = fleet_key(fleet)
    for i, group in enumerate(fleet.groups):
        if group.count is not None and group.nodes is not None:
            review.error(
                "group.count-and-nodes",
                "A group has both a count and nodes",
                f"Group {group.name} counts {group.count} and names {len(group.nodes)}; only one can be meant.",
                key,
                ("groups", i, "nodes"),
                "remove one; in an overlay, `count: null` takes away what the base wrote",
            )
        elif group.count is None and group.nodes is None:
            review.error(
                "group.no-nodes",
                "A group does not say which nodes it has",
                f"Group {group.name} has neither `count` nor `nodes`.",
                key,
                ("groups", i),
                "write `count: 3`, or `nodes:` with a name for each",
            )
    total = sum(size(group) for group in fleet.groups)
    if total > NODES_MAX:
        review.error(
            "fleet.too-many-nodes",
            "A fleet has too many nodes",
            f"{total:,} nodes; one fleet has at most {NODES_MAX:,}.",
            key,
            ("groups",),
            "split it into several fleets",
        )


def _names(review: Review, fleet: Fleet) -> None:
    key = fleet_key(fleet)
    groups: dict[str, int] = {}
    nodes: dict[str, Path] = {}
    for i, group in enumerate(fleet.groups):
        first = groups.setdefault(group.name, i)
        if first != i:
            review.error(
                "group.duplicate",
                "Two groups of a fleet have one name",
                f"{group.name} also stands at {review.place(key, ('groups', first, 'name'))}.",
                key,
                ("groups", i, "name"),
                "give one of them another name",
            )
            continue
        for name, path in _node_names(i, group):
            other = nodes.setdefault(name, path)
            if other is not path:
                review.error(
                    "node.duplicate",
                    "Two nodes of a fleet have one name",
                    f"{name} also comes from {review.place(key, other)}.",
                    key,
                    path,
                    "a node of a counted group is called GROUP-NUMBER, from 0",
                )
                break
        if group.count and not is_name(f"{group.name}-{group.count - 1}"):
            review.error(
                "node.name-too-long",
                "The names of a group's nodes are too long",
                f"{group.name}-{group.count - 1} has more than 63 characters.",
                key,
                ("groups", i, "name"),
                "shorten the group's name",
            )


def _node_names(i: int, group: Group) -> list[tuple[str, Path]]:
    if group.nodes is not None:
        return [(node.name, ("groups", i, "nodes", j, "name")) for j, node in enumerate(group.nodes)]
    path: Path = ("groups", i, "count")
    return [(f"{group.name}-{n}", path) for n in range(group.count or 0)]


def _hosts(review: Review, fleet: Fleet, i: int, group: Group) -> None:
    key = fleet_key(fleet)
    known = review.manifests.hosts
    seen: set[str] = set()
    for j, name in enumerate(group.hosts):
        if name in seen:
            review.error(
                "group.host-twice",
                "A group lists a host twice",
                f"{name} stands twice among the hosts of group {group.name}.",
                key,
                ("groups", i, "hosts", j),
                "remove one; nodes are spread evenly over the list",
            )
        seen.add(name)
        if name not in known:
            _unknown_host(review, fleet, name, ("groups", i, "hosts", j))
    for j, node in enumerate(group.nodes or ()):
        if node.host is not None and node.host not in known:
            _unknown_host(review, fleet, node.host, ("groups", i, "nodes", j, "host"))
    placed = (
        all(node.host is not None for node in group.nodes) if group.nodes is not None else not group.count
    )
    if not group.hosts and not placed:
        review.error(
            "group.no-hosts",
            "A group has nowhere to place its nodes",
            f"The list of hosts of group {group.name} is empty.",
            key,
            ("groups", i, "hosts"),
            "name at least one host, or a `host` for each node",
        )


def _unknown_host(review: Review, fleet: Fleet, name: str, path: Path) -> None:
    if "Host" in review.incomplete:
        return
    review.error(
        "host.unknown",
        "No such host",
        f"No document of kind Host is named {name}; there are {listed(review.manifests.hosts)}.",
        fleet_key(fleet),
        path,
        did_you_mean(name, review.manifests.hosts) or f"add a document of kind Host with name: {name}",
    )

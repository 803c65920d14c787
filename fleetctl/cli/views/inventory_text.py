"""A snapshot for people: host by host, what is there."""

from __future__ import annotations

from datetime import datetime

from fleetctl.cli.terminal import one_line
from fleetctl.cli.views import table
from planner.observed import ObservedHost, Snapshot

_HEADER = ("node", "uid", "state", "health", "version", "digest", "gen", "port", "up", "instance", "detail")

DETAIL_COLUMNS_MAX = 60


def render_inventory(snapshot: Snapshot, now: datetime) -> str:
    """Every host in the order of the snapshot."""
    if not snapshot.hosts:
        return "No host was asked."
    return "\n\n".join(_host(h, now) for h in snapshot.hosts)


def _host(host: ObservedHost, now: datetime) -> str:
    if not host.reachable:
        return f"host/{host.name} ({host.substrate}) does not answer: {one_line(host.error or '')}"
    system = " ".join(one_line(t) for t in (host.os, host.arch) if t)
    head = f"host/{host.name} ({host.substrate}{', ' + system if system else ''}): {len(host.nodes)} nodes"
    if not host.nodes:
        return head
    rows = [
        [
            f"node/{n.fleet}/{n.name}",
            n.uid,
            n.state.value,
            n.health.value,
            n.version,
            n.digest.removeprefix("sha256:")[:12],
            str(n.generation),
            "-" if n.port is None else str(n.port),
            table.since(n.started_at, now),
            n.instance or "-",
            one_line("; ".join([n.detail, *(f"has {loss.what}" for loss in n.losses)]))[:DETAIL_COLUMNS_MAX],
        ]
        for n in host.nodes
    ]
    return "\n".join([head, *table.render(_HEADER, rows, indent="  ")])

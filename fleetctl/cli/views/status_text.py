"""A fleet at one glance: which versions, how many serve, what each node is, what was run last and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleetctl.cli.terminal import PLAIN, Paint, one_line
from fleetctl.cli.views import table
from fleetctl.cli.views.runs_text import ending
from fleetctl.ledger.ports import Lease
from fleetctl.ledger.replay import Run
from planner.drift import changes
from planner.observed import NodeState, ObservedNode, Snapshot
from planner.recorded import Recorded, RecordedNode
from planner.sight import DRAINED, withdrawn
from planner.spec import RELEASE_FIELDS

FORMAT_VERSION = "1.1"
# More than this of an answer from elsewhere breaks the table.
DETAIL_COLUMNS_MAX = 60
INSTANCE_COLUMNS_MAX = 24
# More nodes than this are counted in one line.
DRIFT_MAX = 4

_STYLES = {
    "running": "green",
    "passing": "green",
    "missing": "red",
    "unseen": "yellow",
    NodeState.EXITED.value: "red",
    NodeState.RESTARTING.value: "red",
    NodeState.DAMAGED.value: "red",
    "failing": "red",
}


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node, from what was seen and what is recorded. `state` may also be `missing` or `unseen`; `drift` names the
    fields that are not as fleetctl left them.
    """

    name: str
    uid: str
    host: str
    state: str
    health: str
    version: str | None
    generation: int
    port: int | None
    started_at: str | None
    instance: str | None
    available: bool
    detail: str
    recorded: bool
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """One fleet. `running` is the lease of a run that is under way, `last` the newest run."""

    fleet: str
    nodes: tuple[NodeStatus, ...]
    unreachable: tuple[tuple[str, str], ...]
    last: Run | None
    running: Lease | None
    unknown: tuple[str, ...]
    cordoned: tuple[str, ...] = ()

    @property
    def available(self) -> int:
        return sum(n.available for n in self.nodes)


def fleet_status(
    fleet: str,
    snapshot: Snapshot,
    recorded: Recorded,
    runs: Sequence[Run],
    lease: Lease | None,
    roots: Mapping[str, str | None],
) -> FleetStatus:
    """Puts together what was seen of a fleet and what is recorded of it; pure. `roots` are those of the hosts."""
    seen = {n.uid: (h.name, n) for h in snapshot.hosts for n in h.nodes if n.fleet == fleet}
    down = {h.name: h.error or "it does not answer" for h in snapshot.hosts if not h.reachable}
    nodes = [_of_observed(host, node, recorded, roots.get(host)) for host, node in seen.values()]
    for node in recorded.live().values():
        if node.uid not in seen:
            state, detail = ("unseen", down[node.host]) if node.host in down else ("missing", "")
            nodes.append(
                NodeStatus(
                    name=node.name,
                    uid=node.uid,
                    host=node.host,
                    state=state,
                    health="unknown",
                    version=None if node.spec is None else node.spec.version,
                    generation=node.generation,
                    port=node.port,
                    started_at=None,
                    instance=None,
                    available=False,
                    detail=detail,
                    recorded=True,
                )
            )
    return FleetStatus(
        fleet=fleet,
        nodes=tuple(sorted(nodes, key=lambda n: _natural(n.name))),
        unreachable=tuple(sorted(down.items())),
        last=runs[-1] if runs else None,
        running=lease,
        unknown=recorded.unknown,
        cordoned=tuple(sorted(recorded.cordoned)),
    )


def _of_observed(host: str, node: ObservedNode, recorded: Recorded, root: str | None) -> NodeStatus:
    known = recorded.nodes.get(node.uid)
    detail = node.detail
    left = known is not None and known.drained and withdrawn(known.withdrawn_at, node)
    if left:
        detail = DRAINED
    if node.exit_code is not None and not detail:
        detail = f"exit code {node.exit_code}"
    return NodeStatus(
        name=node.name,
        uid=node.uid,
        host=host,
        state=node.state.value,
        health=node.health.value,
        version=node.version,
        generation=node.generation,
        port=node.port,
        started_at=node.started_at,
        instance=node.instance,
        available=node.available and not left,
        detail=detail,
        recorded=known is not None and not known.destroyed,
        drift=_drift(node, known, root),
    )


def _drift(node: ObservedNode, known: RecordedNode | None, root: str | None) -> tuple[str, ...]:
    """The fields that differ from what was placed. Secrets are compared by reference: their values are not asked for."""
    if known is None or known.destroyed or known.spec is None or not node.fields:
        return ()
    reasons, _ = changes(known.spec, node, root, {})
    of_release = [r for r in reasons if r.field in RELEASE_FIELDS or not r.field]
    others = sorted(r.field for r in reasons if r not in of_release)
    return (*(["release"] if of_release else []), *others)


def _natural(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isascii() and number.isdigit() else (name, -1)


def render_status(fleets: Iterable[FleetStatus], now: datetime, paint: Paint = PLAIN) -> str:
    """The glance, fleet by fleet."""
    return "\n\n".join(_fleet(f, now, paint) for f in fleets) or "No fleet."


def _fleet(status: FleetStatus, now: datetime, paint: Paint) -> str:
    spread = Counter(n.version or "?" for n in status.nodes)
    versions = ", ".join(f"{count} x {version}" for version, count in sorted(spread.items())) or "no nodes"
    whole = status.available == len(status.nodes)
    share = paint(
        "green bold" if whole else "red bold", f"{status.available} of {len(status.nodes)} available"
    )
    lines = [f"{paint('bold', f'fleet/{status.fleet}')}: {versions}; {share}"]
    for host, why in status.unreachable:
        lines.append(paint("yellow", f"  host/{host} does not answer: {one_line(why)}"))
    if status.cordoned:
        hosts = ", ".join(f"host/{host}" for host in status.cordoned)
        lines.append(paint("yellow", f"  Cordoned, so nothing is started there: {hosts}"))
    drifted = [n for n in status.nodes if n.drift]
    if drifted:
        lines.append(paint("yellow", f"  Changed outside of fleetctl: {_changed(drifted)}"))
    if status.running is not None:
        holder = status.running.holder
        lines.append(
            f"  Under way: run {holder.run[:12]} ({holder.command}) of {holder.who}, "
            f"for {table.since(status.running.acquired_at, now)}"
        )
    if status.last is not None:
        if status.last.result is None and status.running is None:
            lines.append(
                paint(
                    "red bold",
                    f"  Cut off: run {status.last.run[:12]} ({status.last.command}), begun {status.last.started_at}; "
                    f"settle it with: fleetctl recover",
                )
            )
        elif status.last.result is not None:
            lines.append(
                f"  Last run, {table.since(status.last.finished_at, now)} ago: "
                f"{status.last.command} {ending(status.last)}"
            )
    if status.nodes:
        header: tuple[str, ...] = (
            "node",
            "state",
            "health",
            "version",
            "gen",
            "host",
            "port",
            "up",
            "process",
            "detail",
        )
        rows = [_row(n, now) for n in status.nodes]
        if not any(r[-1] for r in rows):
            header, rows = header[:-1], [r[:-1] for r in rows]
        lines += _painted(table.render(header, rows, indent="  "), rows, paint)
    return "\n".join(lines)


def _changed(nodes: Sequence[NodeStatus]) -> str:
    """`web-0 (env.GREETING), web-1 (files.conf/app.txt)`, and how many more."""
    shown = [f"{n.name} ({one_line(', '.join(n.drift))[:DETAIL_COLUMNS_MAX]})" for n in nodes[:DRIFT_MAX]]
    more = len(nodes) - DRIFT_MAX
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _row(n: NodeStatus, now: datetime) -> list[str]:
    up = table.since(n.started_at, now) if n.state == NodeState.RUNNING else "-"
    detail = "" if n.available else n.detail
    note = detail if n.recorded else f"not in the state; {detail}".rstrip("; ")
    return [
        n.name,
        n.state,
        n.health,
        n.version or "?",
        str(n.generation),
        n.host,
        "-" if n.port is None else str(n.port),
        up,
        process(n.instance),
        one_line(note)[:DETAIL_COLUMNS_MAX],
    ]


def process(instance: str | None) -> str:
    """What a person can look for: the pid of a process, the beginning of a container's id."""
    if not instance:
        return "-"
    first = instance.partition(".")[0]
    return f"pid {first}" if first.isascii() and first.isdigit() else first[:INSTANCE_COLUMNS_MAX]


def _painted(lines: list[str], rows: Sequence[Sequence[str]], paint: Paint) -> list[str]:
    """Colour goes in after alignment, since its marks have a width of their own."""
    out = lines[:1]
    for line, row in zip(lines[1:], rows, strict=True):
        for word in (row[1], row[2]):
            if word in _STYLES:
                line = line.replace(f" {word} ", f" {paint(_STYLES[word], word)} ", 1)
        out.append(line)
    return out


def document(fleets: Iterable[FleetStatus], taken_at: str) -> dict[str, Any]:
    """The same for machines."""
    return {
        "format_version": FORMAT_VERSION,
        "taken_at": taken_at,
        "fleets": [
            {
                "fleet": f.fleet,
                "count": len(f.nodes),
                "available": f.available,
                "versions": dict(sorted(Counter(n.version or "?" for n in f.nodes).items())),
                "unreachable": dict(f.unreachable),
                "drifted": sum(bool(n.drift) for n in f.nodes),
                "unknown": list(f.unknown),
                "cordoned": list(f.cordoned),
                "under_way": None if f.running is None else f.running.holder.run,
                "last_run": None
                if f.last is None
                else {
                    "run": f.last.run,
                    "command": f.last.command,
                    "result": f.last.result,
                    "exit_code": f.last.exit_code,
                    "started_at": f.last.started_at,
                    "finished_at": f.last.finished_at,
                },
                "nodes": [{s: getattr(n, s) for s in n.__slots__} for n in f.nodes],
            }
            for f in fleets
        ],
    }

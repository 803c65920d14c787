"""The observed snapshot: what was seen, and when. Unseen is not absent.

`fleetctl inventory --format json` prints it and `plan --observed FILE` reads it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from manifests.schema.base import Model

FORMAT_VERSION = "1.0"


class NodeState(StrEnum):
    """What the substrate says of a node's process, container or domain."""

    RUNNING = "running"
    STOPPED = "stopped"  # placed, and not meant to run: never started, or stopped by us
    EXITED = "exited"  # ended by itself, or killed by somebody else
    RESTARTING = (
        "restarting"  # the same, and its substrate is about to start it again: there is something to stop
    )
    PAUSED = "paused"
    DAMAGED = "damaged"  # its record or files cannot be read; nobody may guess what runs


class HealthState(StrEnum):
    """What the probes say. NONE: no probe is declared."""

    PASSING = "passing"
    FAILING = "failing"
    UNKNOWN = "unknown"
    NONE = "none"


LostBy = Literal["start", "removal", "end"]
"""When it goes: at the node's next start; when the node is removed, for its replacement too; or with its data."""


class Loss(Model):
    """Something that the substrate keeps with a node beside its data, and that an effect takes away for good.

    `what` is for people: `2 snapshots (before, after)`. An end loses all of them, a removal those of a start too.
    """

    by: LostBy
    what: str


_RUNNING = NodeState.RUNNING
_LIVE = (NodeState.RUNNING, NodeState.PAUSED, NodeState.RESTARTING)
_SERVING = (HealthState.PASSING, HealthState.NONE)


class ObservedNode(Model):
    """One node as found on its host, whoever made it.

    `fields` has the managed fields in the form of `planner.spec.fields`, as read back;
    `instance` names this very start of it (pid and start time, container id and StartedAt);
    `operation`, `attempt` and `phase` (begun or done) are the last effect that its record knows;
    `detail` is for people: an exit code, the last probe's answer; `losses` what goes with it beside its data.
    """

    uid: str
    fleet: str
    name: str
    lineage: str
    epoch: int
    generation: int
    version: str
    digest: str
    fields: dict[str, str] = {}
    state: NodeState
    health: HealthState = HealthState.UNKNOWN
    instance: str | None = None
    started_at: str | None = None
    operation: str | None = None
    attempt: int = 0
    phase: Literal["begun", "done"] = "done"
    port: int | None = None
    address: str | None = None
    exit_code: int | None = None
    detail: str = ""
    losses: tuple[Loss, ...] = ()

    @property
    def available(self) -> bool:
        """Whether it serves now: running, and no probe says otherwise."""
        return self.state is _RUNNING and self.health in _SERVING

    @property
    def live(self) -> bool:
        """Whether there is something to stop: it runs, or goes on when nobody stops it."""
        return self.state in _LIVE


class ObservedHost(Model):
    """One host. When it was not `reachable`, `error` says why and `nodes` is empty without meaning absent."""

    name: str
    substrate: str
    reachable: bool
    error: str | None = None
    arch: str | None = None
    os: str | None = None
    nodes: tuple[ObservedNode, ...] = ()


class Snapshot(Model):
    """Every host that was asked, at `taken_at` (RFC 3339, UTC)."""

    format_version: str = FORMAT_VERSION
    taken_at: str
    hosts: tuple[ObservedHost, ...]

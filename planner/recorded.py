"""The recorded state: what the ledger believes of one fleet. Made by replaying its journal."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.spec import NodeSpec


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """One node the ledger knows. A destroyed one stays as a tombstone (`destroyed`), its uid is never used again.

    `withdrawn_at` (RFC 3339) is when it was told to serve no more, by a hook or its drain, and neither stopped nor
    started since: a run was interrupted there. `drained`: its drain agreed, so that it need not be asked again.
    """

    uid: str
    name: str
    group: str
    host: str
    port: int | None
    generation: int
    spec: NodeSpec | None = None
    last_healthy: NodeSpec | None = None
    destroyed: bool = False
    withdrawn_at: str | None = None
    drained: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """One fleet's recorded state. `lineage` is None and `serial` 0 for a fleet that was never applied.

    `serial` is the sequence of the journal's last entry; `plans` are the ids that were used up;
    `open_run` names a run that was cut off; `unknown` lists operation ids whose outcome is open. On `cordoned`
    hosts nothing is started or created.
    """

    fleet: str
    lineage: str | None = None
    serial: int = 0
    epoch: int = 0
    nodes: Mapping[str, RecordedNode] = field(default_factory=dict)
    plans: frozenset[str] = frozenset()
    open_run: str | None = None
    unknown: tuple[str, ...] = ()
    cordoned: frozenset[str] = frozenset()

    def live(self) -> dict[str, RecordedNode]:
        """The nodes that are not tombstones, by name."""
        return {n.name: n for n in self.nodes.values() if not n.destroyed}


def derive_uid(fleet: str, name: str, ordinal: int) -> str:
    """The uid of the `ordinal`-th node (from 0) that ever had this name in this fleet: 16 characters a-z2-7.

    Derived, so that the same inputs give the same plan; a uid outlives renames and is never used twice.
    """
    raw = hashlib.sha256(f"fleetctl/uid/{fleet}/{name}/{ordinal}".encode()).digest()[:10]
    return base64.b32encode(raw).decode().lower()

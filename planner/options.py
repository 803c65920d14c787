"""What the operator asked of this plan, beside the manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from manifests.address import Address, FleetAddress, GroupAddress, HostAddress, NodeAddress
from planner.spec import NodeSpec


@dataclass(frozen=True, slots=True)
class Options:
    """`accept_downtime` allows a full plan; `targets` leave everything else as it is; `fleets` names the
    fleets to plan (none: all); `adopt` takes over nodes of another lineage; `destroy` plans the end of
    every node of the fleets. `back` has the specification, by uid, of nodes that go back to an earlier one,
    whatever the manifests want of them now (`fleetctl rollback`; the targets name the same nodes). `drain`
    names a host whose nodes are stopped, and nothing else is done (the targets name the host).
    """

    accept_downtime: bool = False
    targets: tuple[Address, ...] = ()
    fleets: tuple[str, ...] = ()
    adopt: bool = False
    destroy: bool = False
    back: Mapping[str, NodeSpec] = field(default_factory=dict)
    drain: str = ""

    def covers(self, fleet: str, group: str, name: str, host: str) -> bool:
        """Whether the plan may touch this node."""
        if not self.targets:
            return True
        own = {
            FleetAddress(fleet),
            GroupAddress(fleet, group),
            NodeAddress(fleet, name),
            HostAddress(host),
        }
        return not own.isdisjoint(self.targets)

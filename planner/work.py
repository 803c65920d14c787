"""A node's change together with what the planner needs to order it; lives while a plan is made."""

from __future__ import annotations

from dataclasses import dataclass

from manifests.manifest import Path
from planner.chain import Chain
from planner.change import Change
from planner.observed import ObservedNode
from planner.spec import NodeSpec


@dataclass(slots=True)
class Work:
    """One node. `spec` is what it will run, or for one that is destroyed what it ran, as far as known.

    `running`: there is something to stop. `counts`: it is one of the nodes that the budget is about.
    `old` and `new` are the versions that it has and will have; `new` None where it is destroyed. `links`
    are the steps of its change, none where nothing happens to it. `path` leads to what declares it;
    `wanted` are its managed fields.
    """

    change: Change
    spec: NodeSpec | None
    spec_key: str
    seen: ObservedNode | None
    running: bool
    counts: bool
    old: str | None
    new: str | None
    links: Chain = ()
    path: Path | None = None
    wanted: dict[str, str] | None = None

    @property
    def name(self) -> str:
        return self.change.node

    @property
    def disrupts(self) -> bool:
        """Whether it takes a node down that serves now and that counts."""
        return self.counts and self.change.available and any(link.takes_down for link in self.links)

    @property
    def returns(self) -> bool:
        """Whether it brings back a node that does not serve now."""
        return self.counts and not self.change.available and bool(self.links) and self.links[-1].back

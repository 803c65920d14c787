"""A node's change together with what the planner needs to order it; lives while a plan is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from manifests.manifest import Path
from planner.chain import Chain, brings_back, takes_down
from planner.change import Change
from planner.observed import ObservedNode
from planner.plan import Precondition
from planner.spec import NodeSpec


@dataclass(slots=True)
class Work:
    """One node. `spec` is what it will run, or for one that is destroyed what it ran, as far as known.

    `running`: there is something to stop. `counts`: it is one of the nodes that the budget is about.
    `old` and `new` are the versions that it has and will have; `new` None where it is destroyed. `links`
    are the steps of its change, none where nothing happens to it. `path` leads to what declares it;
    `wanted` are its managed fields, `now` what its first step
    expects, once that is known. `disrupts`: it takes a node down that serves now and that counts;
    `returns`: it brings one back that does not.
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
    now: Precondition | None = None
    disrupts: bool = field(init=False)
    returns: bool = field(init=False)

    def __post_init__(self) -> None:
        available = self.change.available
        self.disrupts = self.counts and available and takes_down(self.links)
        self.returns = self.counts and not available and brings_back(self.links)

    @property
    def name(self) -> str:
        return self.change.node

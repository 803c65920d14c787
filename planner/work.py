"""A node's change together with what the planner needs to order it; lives while a plan is made."""

from __future__ import annotations

from dataclasses import dataclass

from manifests.manifest import Path
from planner.change import Action, Change
from planner.observed import ObservedNode
from planner.plan import StepKind
from planner.spec import NodeSpec

# What a change is made of, by substrate: a host's folder and a container's name are used again by the
# next generation, but a container or domain itself has to go before another can bear its name.
_PLACE = {
    "host": (StepKind.STOP, StepKind.CREATE, StepKind.START, StepKind.VERIFY),
    "docker": (StepKind.STOP, StepKind.DESTROY, StepKind.CREATE, StepKind.START, StepKind.VERIFY),
    "qemu": (StepKind.STOP, StepKind.DESTROY, StepKind.CREATE, StepKind.START, StepKind.VERIFY),
}


@dataclass(slots=True)
class Work:
    """One node. `spec` is what it will run, or for one that is destroyed what it ran, as far as known.

    `running`: there is something to stop. `counts`: it is one of the nodes that the budget is about.
    `old` and `new` are the versions that it has and will have; `new` None where it is destroyed.
    `path` leads to what declares it; `wanted` are its managed fields. `replaces` tells a restart that
    places a new generation from one that only starts what is there.
    """

    change: Change
    spec: NodeSpec | None
    spec_key: str
    seen: ObservedNode | None
    running: bool
    counts: bool
    old: str | None
    new: str | None
    path: Path | None = None
    wanted: dict[str, str] | None = None
    replaces: bool = False
    adopts: bool = False

    @property
    def name(self) -> str:
        return self.change.node

    @property
    def moves(self) -> bool:
        """Whether anything happens to it."""
        return self.change.action is not Action.NOOP

    @property
    def disrupts(self) -> bool:
        """Whether it can make a node unavailable that serves now and that counts."""
        return self.counts and self.change.available and self.change.action in _DISRUPTING

    @property
    def places(self) -> bool:
        """Whether it places a generation."""
        action = self.change.action
        return action in _PLACING or (action is Action.RESTART and self.replaces)

    @property
    def starts(self) -> bool:
        """Whether its artifact has to be on the host."""
        return self.places or self.change.action is Action.RESTART

    @property
    def cleared(self) -> bool:
        """Whether no record of it is there any more when its next generation is placed."""
        return self.seen is None or (self.spec is not None and self.spec.substrate != "host")

    def chain(self) -> tuple[StepKind, ...]:
        """The kinds of its steps, in order."""
        return (StepKind.ADOPT, *self._chain()) if self.adopts else self._chain()

    def _chain(self) -> tuple[StepKind, ...]:
        action = self.change.action
        if action is Action.CREATE:
            return (StepKind.CREATE, StepKind.START, StepKind.VERIFY)
        if action is Action.RELOAD:
            return (StepKind.RELOAD, StepKind.VERIFY)
        if action is Action.DESTROY:
            return (StepKind.STOP, StepKind.DESTROY) if self.running else (StepKind.DESTROY,)
        if action is Action.REPLACE or (action is Action.RESTART and self.replaces):
            assert self.spec is not None
            chain = _PLACE[self.spec.substrate]
            return chain if self.running else chain[1:]
        if action is Action.RESTART:
            return (StepKind.START, StepKind.VERIFY)
        return ()


_PLACING = frozenset({Action.CREATE, Action.REPLACE})
_DISRUPTING = frozenset({Action.REPLACE, Action.RESTART, Action.RELOAD})

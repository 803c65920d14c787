"""Failure domains: how many nodes of one host, or of one value of a label, may be unavailable at once.

A node that does not have the label is bound by none of its values; `manifests.rules` asks for it on every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from manifests.manifest import Path
from planner.work import Work

HOST_KEY = "max_unavailable_per_host"
LABEL_KEY = "max_unavailable_per_label"


@dataclass(frozen=True, slots=True)
class Spread:
    """One bound: at most `limit` nodes down per host (`label` None) or per value of that label."""

    limit: int
    label: str | None = None

    @property
    def path(self) -> Path:
        """Where a manifest declares it."""
        return ("rollout", HOST_KEY) if self.label is None else ("rollout", LABEL_KEY, self.label)

    @property
    def code(self) -> str:
        """The code of a refusal because of it."""
        return "budget.host" if self.label is None else "budget.label"

    @property
    def word(self) -> str:
        """What its failure domains are called."""
        return "host" if self.label is None else self.label

    @property
    def declared(self) -> str:
        """The bound in the manifest's words."""
        return f"{'.'.join(map(str, self.path[1:]))} is {self.limit}"

    def domain(self, host: str, labels: Mapping[str, str]) -> str | None:
        """The failure domain of a node under this bound, in words; None: it is bound by none."""
        if self.label is None:
            return f"host {host}"
        value = labels.get(self.label)
        return None if value is None else f"{self.label} {value}"

    def of(self, work: Work) -> str | None:
        """The failure domain of a node that is being planned."""
        return self.domain(work.change.host, work.spec.labels if work.spec is not None else {})

    def at_once(self, works: Iterable[Work]) -> int:
        """How many of these the bound lets go down at once, at most."""
        found = Counter(self.of(w) for w in works)
        free = found.pop(None, 0)
        return free + sum(min(n, self.limit) for n in found.values())


class Bounds(Protocol):
    """What declares the bounds: a manifest's rollout, or a plan's."""

    @property
    def max_unavailable_per_host(self) -> int | None: ...

    @property
    def max_unavailable_per_label(self) -> Mapping[str, int]: ...


def spreads(rollout: Bounds) -> tuple[Spread, ...]:
    """The bounds that a rollout declares."""
    per_host = rollout.max_unavailable_per_host
    hosts = [] if per_host is None else [Spread(per_host)]
    return (*hosts, *(Spread(n, label) for label, n in sorted(rollout.max_unavailable_per_label.items())))

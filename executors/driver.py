"""The ports of a substrate: a Reader that can only look, and a Driver that performs one effect at a time.

`plan` and `inventory` are handed Readers; no object that can mutate is made for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from executors.command import Hear
from executors.outcome import Outcome
from manifests.errors import FleetctlError
from manifests.secret import Secret
from planner.observed import HealthState, ObservedHost
from planner.plan import Precondition, StepKind
from planner.spec import ArtifactPin, NodeSpec


class DriverError(FleetctlError):
    """A substrate cannot be used at all (not installed, not reachable, wrong kind of host)."""

    code = "driver.unusable"


@dataclass(frozen=True, slots=True)
class Operation:
    """One effect to perform, bound to its identity in the ledger.

    `fields` are the managed fields as they are recorded beside the node (`planner.spec.fields`, keyed).
    `deadline_s` bounds the whole effect, drain included. `retain_data` matters for destroy.
    """

    operation_id: str
    attempt: int
    fleet: str
    lineage: str
    epoch: int
    node: str
    uid: str
    generation: int
    effect: StepKind
    spec: NodeSpec
    fields: Mapping[str, str] = field(default_factory=dict)
    precondition: Precondition | None = None
    retain_data: bool = True
    deadline_s: float = 60.0


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """One node to probe: where it is, what is asked, and which start of it is meant."""

    uid: str
    spec: NodeSpec
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One probe's answer; `detail` is for people (status line, refused, timed out). `instance` as observed."""

    state: HealthState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StagedArtifact:
    """An artifact's bytes at their place on a host: the pin, where it is, how much, and since when untouched.

    `used` tells that something on the place itself holds it, whoever made that.
    """

    digest: str
    where: str
    size_b: int
    age_s: float
    used: bool = False


Tell = Callable[[str], None]
"""Hears how far something that takes long has come, in a few words."""


def silent(text: str) -> None:
    """Nobody listens."""
    del text


class Reader(Protocol):
    """What can be done to a host without changing anything on it."""

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        """Everything of these fleets on this host (an empty set: of every fleet), in one pass, without probes.

        A host that does not answer is an ObservedHost with `reachable` false, not an exception.
        """
        ...

    def probe(self, target: ProbeTarget) -> ProbeResult:
        """Asks the node once, within the probe's timeout; never raises for a node that does not answer."""
        ...

    def logs(self, uid: str, lines: int) -> str:
        """The last lines of the node's output, bounded; empty when there is none."""
        ...

    def follow(self, uid: str, lines: int, hear: Hear) -> None:
        """Lets `hear` have the last lines of the node's output and then what comes, as it comes.

        Returns where the place says that no more will come; otherwise what `hear` raises, or an interrupt, ends it.
        Raises TransportError, OutcomeLost or DriverError.
        """
        ...

    def close(self) -> None: ...


class Driver(Reader, Protocol):
    """What can be done on a host. One instance serves one host, and is safe for use by several threads."""

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        """Brings a verified artifact (a local file) to its immutable place. Repeating it is harmless.

        `tell` hears how far it is, for people who wait.

        Raises TransportError, OutcomeLost or DriverError.
        """
        ...

    def staged(self, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
        """The artifacts that were brought here: all of them, or those of `pins` where a place cannot tell its own.

        Raises TransportError, OutcomeLost or DriverError.
        """
        ...

    def unstage(self, artifact: StagedArtifact) -> str | None:
        """Removes an artifact's bytes. Where the place itself refuses because something uses them: what it says.

        Raises TransportError, OutcomeLost or DriverError.
        """
        ...

    def execute(self, uid: str, argv: Sequence[str], hear: Hear, timeout_s: float) -> int:
        """Runs a command where the node lives (in its folder with its environment, in its container, in its guest)
        and gives the exit status; one that a signal ended has 128 and its number. `hear` has the output as it comes,
        where the place can. It is nobody's operation: no record knows of it.

        Raises DriverError when it cannot be run there, TransportError, and OutcomeLost past `timeout_s`.
        """
        ...

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """Performs the effect at most once for this operation id and attempt; a repeat gives the recorded answer.

        Refuses (rejected) an older epoch, an older generation and another lineage before anything happens.
        """
        ...

    def lookup(self, operation: Operation) -> Outcome:
        """What became of an operation whose answer was lost, from evidence on the substrate; changes nothing.

        `unknown` stays the answer where the evidence does not decide.
        """
        ...


Resolve = Callable[[str], Secret]
"""Resolves a secret reference (`env:NAME`) to its value; raises FleetctlError."""

"""What can happen to a rollout, and what its brain may ask for: values only.

`decide.on_event(rollout, event) -> effects` is the whole interface; production and the simulator differ
in who performs the effects. Times are seconds of the engine's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from executors.driver import Operation, ProbeResult, ProbeTarget
from executors.hooks import HookCall
from executors.outcome import Outcome
from fleetctl.ledger.entries import Body
from fleetctl.ledger.operations import By
from manifests.errors import ExitCode
from planner.observed import Snapshot
from planner.spec import ArtifactPin, NodeSpec


@dataclass(frozen=True, slots=True)
class Started:
    """The run begins, or goes on after a crash."""

    now_s: float


@dataclass(frozen=True, slots=True)
class Told:
    """How far the bringing of an artifact has come, in words."""

    step: str
    text: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Staged:
    """An artifact is at its place on a host, or could not be brought there (`error`)."""

    step: str
    error: str | None
    now_s: float


@dataclass(frozen=True, slots=True)
class Performed:
    """A driver answered, to the call itself or to a lookup (`by`). `attempt` says for which attempt."""

    step: str
    attempt: int
    outcome: Outcome
    by: By
    now_s: float


@dataclass(frozen=True, slots=True)
class Probed:
    """One probe of the node of a verify step came back. `serial` tells a late answer from the awaited one."""

    step: str
    serial: int
    result: ProbeResult
    now_s: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """All nodes of the fleet were looked at, beginning at `begun_s`."""

    snapshot: Snapshot
    begun_s: float
    now_s: float


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time went by."""

    now_s: float


@dataclass(frozen=True, slots=True)
class Signalled:
    """The operator pressed Ctrl-C, or something sent SIGTERM. `exit_code` is 130 or 143."""

    exit_code: ExitCode
    now_s: float


@dataclass(frozen=True, slots=True)
class Controlled:
    """A control entry was found in the journal."""

    verb: str
    who: str
    facts: Mapping[str, Any]
    now_s: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """A failed node as it was found right after. `state` and `detail` are words of its place (`exited`, `out of
    memory`), `log` the end of its own output as it stands there: text from elsewhere, to be cleaned by whoever shows it.
    """

    state: str = ""
    exit_code: int | None = None
    detail: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """What a failed node's place says of it: its state, how it ended, its last words."""

    node: str
    evidence: Evidence
    now_s: float


Event = Started | Staged | Told | Performed | Probed | Sampled | Ticked | Signalled | Controlled | Examined


@dataclass(frozen=True, slots=True)
class Journal:
    """Append these entries, durably, before any other effect of the same decision is carried out."""

    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Bring an artifact to a host, and whatever else its nodes boot from."""

    step: str
    host: str
    substrate: str
    pin: ArtifactPin
    more: tuple[ArtifactPin, ...] = ()


@dataclass(frozen=True, slots=True)
class Perform:
    """Call the driver with this operation, or run this hook, whose intent is in the journal by now."""

    step: str
    host: str
    operation: Operation | HookCall


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask the driver what became of this operation, not before `at_s`."""

    step: str
    host: str
    operation: Operation | HookCall
    at_s: float


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask a node how it is."""

    step: str
    serial: int
    host: str
    substrate: str
    target: ProbeTarget


@dataclass(frozen=True, slots=True)
class Sample:
    """Look at all nodes of the fleet."""


@dataclass(frozen=True, slots=True)
class Examine:
    """Find out what a failed node has left: its state and its last words, before anything else is done to it."""

    node: str
    uid: str
    host: str
    spec: NodeSpec


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a tick at this time, if nothing happens before."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """Tell whoever watches: in words, and as `facts` for machines (see `fleetctl.engine.observer`)."""

    kind: str
    node: str | None
    text: str
    since_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """The run ends. `settled` False: outcomes are open, so the journal gets no end of run."""

    result: str
    exit_code: ExitCode
    summary: str
    settled: bool = True


Effect = Journal | Stage | Perform | Lookup | Probe | Sample | Examine | Wake | Report | Finish

"""What the pool runs: one effect each, turned into the event that tells how it ended. No decision is made here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from executors.clock import Clock
from executors.driver import Driver, DriverError, ProbeResult, Resolve
from executors.hooks import HookCall, HookPlace, Hooks
from executors.outcome import Outcome, rejected, unknown
from executors.transport import OutcomeLost, TransportError
from fleetctl.engine.events import (
    Evidence,
    Examine,
    Examined,
    Lookup,
    Perform,
    Performed,
    Probe,
    Probed,
    Sampled,
    Stage,
    Staged,
    Told,
)
from fleetctl.engine.mask import Mask
from fleetctl.ledger.operations import By
from fleetctl.ledger.ports import Lease, LeaseLost, Leases
from manifests.errors import FleetctlError
from manifests.schema.host import Host
from manifests.secret import Secret
from planner.observed import HealthState, ObservedHost, Snapshot
from planner.spec import ArtifactPin, NodeSpec, SecretUse

EXAMINED_LINES = 15
"""Enough to see why a program ended; the rest is in its log."""
EXAMINED_MAX_B = 16 * 1024
"""What of these lines is carried on, however long they are."""
Drivers = Callable[[Host, str], Driver]
"""Makes the driver of a host and substrate; may raise FleetctlError."""
Fetch = Callable[[ArtifactPin], Path]
"""Brings an artifact's verified bytes to a local file; raises FleetctlError."""
Observe = Callable[
    ["Mapping[tuple[str, str], Driver | FleetctlError]", str, Mapping[str, NodeSpec]], Snapshot
]
"""Looks at these places (host and substrate), at one fleet, probing the nodes whose specification is given by uid."""


@dataclass
class Hands:
    """Drivers, one for each place and kept while the run lasts, and what they need. Safe for several threads.

    `hooks` is where those run that run here.
    """

    hosts: Mapping[str, Host]
    drivers: Drivers
    fetch: Fetch
    resolve: Resolve
    observe: Observe
    clock: Clock
    leases: Leases
    hooks: Hooks | None = None
    made: dict[tuple[str, str], Driver] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    mask: Mask = field(default_factory=Mask)

    def driver(self, host: str, substrate: str) -> Driver:
        """The driver of a place; raises FleetctlError when it cannot be used."""
        with self.lock:
            made = self.made.get((host, substrate))
            if made is None:
                document = self.hosts.get(host)
                if document is None:
                    raise DriverError(
                        f"host {host} is not in the plan, so nobody knows how to reach it",
                        code="host.unknown",
                    )
                made = self.made[host, substrate] = self.drivers(document, substrate)
            return made

    def close(self) -> None:
        for driver in self.made.values():
            driver.close()

    def stage(self, effect: Stage, put: Callable[[Told], None]) -> Staged:
        error = None

        def tell(text: str) -> None:
            put(Told(effect.step, text, self.clock.monotonic()))

        try:
            for pin in (effect.pin, *effect.more):
                # An image in a registry is pulled by the engine itself, by its digest.
                local = "" if pin.in_registry else str(self.fetch(pin))
                self.driver(effect.host, effect.substrate).stage(pin, local, tell)
        except FleetctlError as e:
            error = e.message if e.hint is None else f"{e.message} ({e.hint})"
        except OSError as e:
            error = str(e)
        return Staged(effect.step, error, self.clock.monotonic())

    def perform(self, effect: Perform, lease: Lease) -> Performed:
        """Calls the driver, if the lease is still ours at this very moment."""
        operation = effect.operation
        try:
            self.leases.check(lease)
            if isinstance(operation, HookCall):
                outcome = self._hooks(effect.host, operation).perform(operation)
            else:
                secrets = self.secrets(operation.spec)
                outcome = self.driver(effect.host, operation.spec.substrate).perform(operation, secrets)
        except LeaseLost as e:
            outcome = rejected("engine.stale_epoch", e.message)
        except OutcomeLost as e:
            outcome = unknown(e.code, e.message)
        except (TransportError, DriverError) as e:
            outcome = rejected(e.code, e.message, performed="no")
        except FleetctlError as e:
            outcome = rejected(e.code, e.message, performed="no")
        except OSError as e:
            # From below the driver's own handling: nobody knows how far it came.
            outcome = unknown("engine.os_error", str(e))
        return self._performed(effect.step, operation.attempt, outcome, By.ANSWER)

    def lookup(self, effect: Lookup) -> Performed:
        operation = effect.operation
        try:
            if isinstance(operation, HookCall):
                outcome = self._hooks(effect.host, operation).lookup(operation)
            else:
                outcome = self.driver(effect.host, operation.spec.substrate).lookup(operation)
        except FleetctlError as e:
            outcome = unknown(e.code, e.message)
        except OSError as e:
            outcome = unknown("engine.os_error", str(e))
        return self._performed(effect.step, operation.attempt, outcome, By.LOOKUP)

    def _hooks(self, host: str, call: HookCall) -> Hooks:
        """Where a hook runs; raises DriverError where none can."""
        if call.where == "here":
            if self.hooks is None:
                raise DriverError("no hooks can be run here", code="hook.nowhere")
            return self.hooks
        driver = self.driver(host, "host")
        if not isinstance(driver, HookPlace):
            raise DriverError(f"host {host} runs no hooks", code="hook.nowhere")
        return driver.hooks()

    def probe(self, effect: Probe) -> Probed:
        try:
            result = self.driver(effect.host, effect.substrate).probe(effect.target)
            result = replace(result, detail=self.mask(result.detail))
        except (FleetctlError, OSError) as e:
            result = ProbeResult(HealthState.UNKNOWN, str(e))
        return Probed(effect.step, effect.serial, result, self.clock.monotonic())

    def examine(self, effect: Examine, fleet: str) -> Examined:
        """What a failed node has left. A place that does not answer has left nothing."""
        seen, log = None, ""
        try:
            self.secrets(effect.spec)  # to know what must not be repeated
            driver = self.driver(effect.host, effect.spec.substrate)
            log = self.mask(driver.logs(effect.uid, EXAMINED_LINES))[-EXAMINED_MAX_B:]
            host = driver.observe(frozenset({fleet}))
            seen = next((n for n in host.nodes if n.uid == effect.uid), None)
        except (FleetctlError, OSError):
            pass  # the failure itself was told; what cannot be had adds nothing to it
        if seen is None:
            evidence = Evidence(log=log)
        else:
            evidence = Evidence(seen.state.value, seen.exit_code, self.mask(seen.detail), log)
        return Examined(effect.node, evidence, self.clock.monotonic())

    def sample(
        self, fleet: str, places: frozenset[tuple[str, str]], specs: Mapping[str, NodeSpec]
    ) -> Sampled:
        begun_s = self.clock.monotonic()
        return Sampled(self.look(fleet, places, specs), begun_s, self.clock.monotonic())

    def look(self, fleet: str, places: frozenset[tuple[str, str]], specs: Mapping[str, NodeSpec]) -> Snapshot:
        """One look at all these places."""
        readers: dict[tuple[str, str], Driver | FleetctlError] = {}
        for place in sorted(places):
            try:
                readers[place] = self.driver(*place)
            except FleetctlError as e:
                readers[place] = e
        return self.observe(readers, fleet, specs)

    def secrets(self, spec: NodeSpec) -> dict[str, Secret]:
        """The values of the spec's references, resolved now."""
        values = {ref: self.resolve(ref) for ref in references(spec)}
        self.mask.learn(values.values())
        return values

    def _performed(self, step: str, attempt: int, outcome: Outcome, by: By) -> Performed:
        # Only what is for people: an instance is compared, and has to stay what it is.
        log = outcome.evidence.get("log")
        said = {"log": self.mask(log)} if isinstance(log, str) else {}
        outcome = replace(outcome, detail=self.mask(outcome.detail), evidence={**outcome.evidence, **said})
        return Performed(step, attempt, outcome, by, self.clock.monotonic())


def references(spec: NodeSpec) -> set[str]:
    """The secret references of a specification."""
    refs = {value.secret for value in spec.env.values() if isinstance(value, SecretUse)}
    return refs | {file.secret for file in spec.files if file.secret is not None}


def unreachable(place: tuple[str, str], error: FleetctlError) -> ObservedHost:
    """A place that cannot even be asked."""
    return ObservedHost(name=place[0], substrate=place[1], reachable=False, error=error.message)

"""What can act on a libvirt: one effect at a time, evidence from libvirt before any guess.

libvirt checks no epoch, so the driver looks before it acts; a fenced holder that wakes in between can act
once more (docs/effects.md), and unique names and UUIDs keep it from making a second domain.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from executors.clock import Clock
from executors.command import Hear
from executors.drain import by_command, by_http, drain, drained
from executors.driver import DriverError, Operation, StagedArtifact, Tell, silent
from executors.libvirt import agent, definition, domains, kept, metadata, names, observe, seed
from executors.libvirt.connection import Unreachable
from executors.libvirt.disks import Disks
from executors.libvirt.domains import Held
from executors.libvirt.evidence import EFFECTS, State, fenced, impossible, refused, settled, stranger
from executors.libvirt.images import Images
from executors.libvirt.kept import Kept
from executors.libvirt.observe import Seen
from executors.libvirt.read_back import Surroundings, differing
from executors.libvirt.reader import LibvirtReader, ToGuest
from executors.libvirt.stopping import Stopping
from executors.outcome import Outcome, failed, rejected, unknown
from executors.transport import Transport
from manifests.errors import FleetctlError
from manifests.schema.host import Libvirt
from manifests.secret import Secret
from planner.plan import StepKind
from planner.spec import ArtifactPin

T = TypeVar("T")
WENT = "with it went: "
"""Begins what an outcome says of losses."""


class LibvirtDriver(LibvirtReader):
    """One libvirt, and what may be done there."""

    def __init__(
        self,
        host: str,
        settings: Libvirt,
        uri: Callable[[], str],
        transport: Transport,
        clock: Clock,
    ) -> None:
        super().__init__(host, settings, uri, transport, clock)
        self._images = Images(self._pool, self._libvirt, clock)
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}

    def lookup(self, operation: Operation) -> Outcome:
        if operation.effect is StepKind.DRAIN:
            return drained(operation, self.probe)
        return self._answered(lambda: settled(operation, self._now(operation.uid)), sent=True)

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        del tell  # an upload says nothing on its way
        try:
            self._connection.read(lambda c: self._images.bring(c, pin.digest, Path(local_path)))
        except (self._libvirt.libvirtError, OSError) as e:
            raise DriverError(f"host/{self._host}: {pin.name} could not be brought: {e}") from e

    def staged(self, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
        """All that was brought into the pool, whatever `pins` are."""
        del pins
        try:
            return self._connection.read(lambda c: self._images.staged(c, self._used(c)))
        except (self._libvirt.libvirtError, OSError) as e:
            raise DriverError(f"host/{self._host}: {e}") from e

    def unstage(self, artifact: StagedArtifact) -> str | None:
        try:
            connection = self._connection.get()
            if artifact.where in self._used(connection):
                return "a domain boots from it"
            self._images.remove(connection, artifact.where)
        except self._libvirt.libvirtError as e:
            raise DriverError(f"host/{self._host}: {artifact.where} could not be removed: {e}") from e
        return None

    def execute(self, uid: str, argv: Sequence[str], hear: Hear, timeout_s: float) -> int:
        """Runs a command in the guest through its agent, which gives the output at the end."""
        domain = self._connection.read(lambda connection: self._known(connection, uid))
        state, reason = domain.state(0)
        if state not in (observe.RUNNING, observe.BLOCKED):
            raise DriverError(
                f"the domain is {observe.state_words(state, reason)}, so nothing can be run in it",
                code="libvirt.not_running",
            )
        status, out, err = agent.execute(domain, argv, timeout_s, self._clock, self._libvirt)
        for data, error in ((out, False), (err, True)):
            if data:
                hear(data, error)
        return status

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """Looks first (replay, fencing), then acts; a call without an answer is unknown."""
        held = self._held_of(operation.uid)

        def look() -> tuple[State | None, Outcome | None]:
            state = self._connection.read(held.look)
            if (stale := fenced(operation, state)) is not None:
                return state, stale
            if state is not None and EFFECTS[operation.effect].replays(operation, state):
                return state, settled(operation, state)
            return state, impossible(operation, state)

        if operation.effect is StepKind.DRAIN:
            return self._drain(operation)
        looked = self._answered(look, sent=False)
        if isinstance(looked, Outcome):
            return looked
        state, answer = looked
        if answer is not None:
            return answer
        return self._answered(lambda: self._act(operation, held, state, secrets), sent=True)

    def _drain(self, operation: Operation) -> Outcome:
        refused = self._answered(lambda: fenced(operation, self._now(operation.uid)), sent=False)
        if refused is not None:
            return refused
        return drain(operation, lambda: self._begin_drain(operation), self.probe, self._clock)

    def _begin_drain(self, operation: Operation) -> Outcome:
        spec = operation.spec
        call, command = spec.drain.http, spec.drain.command
        domain = domains.find(self._connection.get(), operation.uid, self._libvirt)
        if domain is None:
            return failed("libvirt.gone", "there is no such domain", performed=0)
        if call is None:
            assert command is not None, "a drain without a call is no step"
            timeout_s = spec.drain.timeout / 1000
            check = partial(agent.check, domain, command.command, timeout_s, self._clock, self._libvirt)
            return self._answered(lambda: by_command(check()), sent=True)
        by = definition.domain_of(spec).address.by
        found = spec.address if by == "static" else self._found(domain, by)
        if found is None:
            return failed("libvirt.no_address", f"the guest has no address yet (by {by})", performed=0)
        return by_http(ToGuest(self._transport), spec.model_copy(update={"address": found}), call)

    def _now(self, uid: str) -> State | None:
        return self._connection.read(self._held_of(uid).look)

    def _held_of(self, uid: str) -> Held:
        """What is held of a node's domain between its effects, which come one after the other."""
        with self._lock:
            return self._held.setdefault(uid, Held(uid, self._libvirt))

    def _act(
        self, operation: Operation, held: Held, state: State | None, secrets: Mapping[str, Secret]
    ) -> Outcome:
        if operation.effect is StepKind.CREATE:
            return self._create(operation, held, secrets)
        assert state is not None, "what is gone was answered before"
        match operation.effect:
            case StepKind.START:
                return self._start(operation, held, state)
            case StepKind.STOP:
                return Stopping(self._connection, operation, held).stop(self._written(operation, held, state))
            case StepKind.ADOPT:
                self._written(operation, held, state)
            case StepKind.DESTROY:
                return self._destroy(operation, held, state)
            case _:
                raise AssertionError(f"{operation.effect} is no effect here")
        return settled(operation, self._connection.read(held.look))

    def _create(self, operation: Operation, held: Held, secrets: Mapping[str, Secret]) -> Outcome:
        connection, spec, uid = self._connection.get(), operation.spec, operation.uid
        taken = self._stranger(connection, uid)
        if taken is not None:
            return taken
        for pin in spec.pins:
            if not self._images.has(connection, pin.digest):
                return rejected(
                    "libvirt.image_missing", f"{pin.source} is not in the pool, or was written to"
                )
        template = definition.template_pin(spec)
        own = self._images.text(connection, template.digest) if template is not None else None
        place = definition.Place(self._pool.path(connection), self._connection.arch(connection), self._kind)
        xml = definition.define(operation, place, own)
        content = seed.iso(seed.files(operation, secrets)) if definition.domain_of(spec).seed else None
        placed = self._disks.place(connection, uid, spec, content)
        if isinstance(placed, Outcome):
            return placed
        domain = connection.defineXMLFlags(xml, self._libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        held.hold(connection, domain)
        autostart = definition.domain_of(spec).autostart
        if autostart:  # what was just defined has none
            domain.setAutostart(1)
        root = domains.parsed(domain.XMLDesc(self._libvirt.VIR_DOMAIN_XML_INACTIVE))
        wrong = differing(root, operation, Surroundings(autostart, placed, self._kind))
        if wrong:
            domain.undefineFlags(self._libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM)
            return failed("libvirt.not_as_declared", f"libvirt made something else of it: {'; '.join(wrong)}")
        seen = Seen(domain.UUIDString(), observe.SHUTOFF, 0, -1, root)
        return settled(operation, State(seen, seen.ours))

    def _stranger(self, connection: Any, uid: str) -> Outcome | None:
        """Somebody else's domain under the node's name; libvirt would refuse the definition without saying whose."""
        try:
            other = connection.lookupByName(names.domain(uid))
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        return stranger(uid, other.UUIDString())

    def _start(self, operation: Operation, held: Held, state: State) -> Outcome:
        connection = self._connection.get()
        for pin in operation.spec.pins:
            if not self._images.has(connection, pin.digest):
                return failed(
                    "artifact.digest_mismatch",
                    f"{pin.source} in the pool was written to, or is gone; bring it again",
                )
        self._cleared(held, state)
        written = self._written(operation, held, state)
        domain = held.domain(self._connection.get()) if written is not None else None
        if written is None or domain is None:
            return settled(operation, None)
        # A create that was cut off may have come only as far as the definition.
        if definition.domain_of(operation.spec).autostart and not domain.autostart():
            domain.setAutostart(1)
        # A saved state would go on with what ran when it was saved, not with what is placed now.
        flags = 0 if self._kind else self._libvirt.VIR_DOMAIN_START_FORCE_BOOT
        error = None
        try:
            domain.createWithFlags(flags)
        except self._libvirt.libvirtError as e:
            if self._connection.lost(e):
                raise
            error = e  # unless it runs all the same: this very operation came twice at once
        outcome = settled(operation, self._connection.read(lambda c: held.again(c, written)))
        if outcome.state != "succeeded":
            if error is not None:
                raise error
            return outcome
        return replace(outcome, detail=WENT + kept.SAVED) if observe.is_saved(state.seen) else outcome

    def _destroy(self, operation: Operation, held: Held, state: State) -> Outcome:
        connection, uid, retain = self._connection.get(), operation.uid, operation.retain_data
        domain = held.domain(connection)
        if domain is None:
            return settled(operation, None)  # somebody else was faster
        self._cleared(held, state)
        defined = kept.defined(state.seen.defined)
        # Volumes first: while the domain is defined, a lookup finds the rest still to be done.
        self._disks.remove(connection, uid, operation.spec, retain=retain)
        lost = self._undefined(domain, defined, retain=retain)
        outcome = settled(operation, self._now(uid))
        if outcome.code != "libvirt.gone":
            return outcome
        with self._lock:
            self._held.pop(uid, None)
        return replace(outcome, detail=WENT + ", ".join(lost)) if lost else outcome

    def _cleared(self, held: Held, state: State) -> None:
        """Ends the QEMU that stands there with a guest that crashed, where its definition preserves that."""
        if state.seen.state == observe.CRASHED:
            self._connection.read(held.kill)

    def _undefined(self, domain: Any, defined: Kept, *, retain: bool) -> list[str]:
        """Takes the definition away, and with it what libvirt refuses to lose unasked; gives what that was."""
        lib = self._libvirt
        try:
            domain.undefineFlags(kept.flags(defined, lib, retain=retain))
            found = defined
        except lib.libvirtError as e:
            if e.get_error_code() != lib.VIR_ERR_OPERATION_INVALID:
                raise
            found = kept.asked(domain, defined)
            domain.undefineFlags(kept.flags(found, lib, retain=retain))
        return [loss.what for loss in kept.losses(found) if not (retain and loss.by == "end")]

    def _written(self, operation: Operation, held: Held, state: State) -> State | None:
        """Writes the operation into the domain's metadata, before the call that it is about; None: it is gone."""
        ours = metadata.of_operation(operation, state.ours)
        # Writing the same once more changes nothing.
        return self._connection.read(lambda connection: held.write(connection, ours, state))

    @property
    def _disks(self) -> Disks:
        return Disks(self._pool)

    def _used(self, connection: Any) -> frozenset[str]:
        """The volumes that some domain boots from, or whose disks lie over them."""
        return domains.used(connection, self._libvirt) | self._images.backings(connection)

    def _answered(self, call: Callable[[], T], *, sent: bool) -> T | Outcome:
        """Runs a call and turns libvirt's errors into outcomes: an answer is final, its absence unknown."""
        try:
            return call()
        except self._libvirt.libvirtError as e:
            if self._connection.lost(e):
                return (unknown if sent else rejected)("libvirt.no_answer", str(e))
            return refused(str(e), e.get_error_code())
        except Unreachable as e:
            return (unknown if sent else rejected)(e.code, e.message)
        except OSError as e:
            return (unknown if sent else rejected)("libvirt.no_answer", str(e))
        except (FleetctlError, ValueError) as e:
            return rejected("libvirt.unusable", str(e))

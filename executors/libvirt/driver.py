"""What can act on a libvirt: one effect at a time, evidence from libvirt before any guess.

libvirt checks no epoch, so the driver looks before it acts; a fenced holder that wakes in between can act
once more (docs/effects.md), and unique names and UUIDs keep it from making a second domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from executors.drain import by_command, by_http, drain, drained
from executors.driver import DriverError, Operation, StagedArtifact, Tell, silent
from executors.libvirt import agent, definition, metadata, names, observe, seed
from executors.libvirt.connection import Unreachable
from executors.libvirt.disks import Disks
from executors.libvirt.evidence import EFFECTS, State, fenced, impossible, settled, stranger
from executors.libvirt.read_back import Surroundings, read_back
from executors.libvirt.reader import LibvirtReader, _parsed, _ToGuest
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from manifests.errors import FleetctlError
from manifests.secret import Secret
from planner.plan import StepKind
from planner.spec import ArtifactPin

T = TypeVar("T")

# Between two presses of the power button: a guest that still boots does not hear the first one.
PRESS_AGAIN_S = 5.0
# How long QEMU may take to end once it is killed.
KILL_S = 10.0


class LibvirtDriver(LibvirtReader):
    """One libvirt, and what may be done there."""

    def lookup(self, operation: Operation) -> Outcome:
        if operation.effect is StepKind.DRAIN:
            return drained(operation, self.probe)
        return self._answered(lambda: settled(operation, self._now(operation.uid)), sent=True)

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        del tell  # an upload says nothing on its way
        try:
            self._connection.read(lambda c: self._pool.bring(c, pin.digest, Path(local_path)))
        except (self._libvirt.libvirtError, OSError) as e:
            raise DriverError(f"host/{self._host}: {pin.name} could not be brought: {e}") from e

    def staged(self, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
        """All that was brought into the pool, whatever `pins` are."""
        del pins
        try:
            return self._connection.read(lambda c: self._pool.staged(c, self._used(c)))
        except (self._libvirt.libvirtError, OSError) as e:
            raise DriverError(f"host/{self._host}: {e}") from e

    def unstage(self, artifact: StagedArtifact) -> str | None:
        try:
            connection = self._connection.get()
            if artifact.where in self._used(connection):
                return "a domain boots from it"
            # First the mark: what has none is no image any more.
            self._pool.remove(connection, [artifact.where + names.VERIFIED, artifact.where])
        except self._libvirt.libvirtError as e:
            raise DriverError(f"host/{self._host}: {artifact.where} could not be removed: {e}") from e
        return None

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """Looks first (replay, fencing), then acts; a call without an answer is unknown."""

        def look() -> tuple[State | None, Outcome | None]:
            state = self._now(operation.uid)
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
        state, refused = looked
        if refused is not None:
            return refused
        return self._answered(lambda: self._act(operation, state, secrets), sent=True)

    def _drain(self, operation: Operation) -> Outcome:
        refused = self._answered(lambda: fenced(operation, self._now(operation.uid)), sent=False)
        if refused is not None:
            return refused
        return drain(operation, lambda: self._begin_drain(operation), self.probe, self._clock)

    def _begin_drain(self, operation: Operation) -> Outcome:
        spec = operation.spec
        call, command = spec.drain.http, spec.drain.command
        domain = self._domain(self._connection.get(), operation.uid)
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
        return by_http(_ToGuest(self._transport), spec.model_copy(update={"address": found}), call)

    def _now(self, uid: str) -> State | None:
        return self._connection.read(lambda connection: self._state(connection, uid))

    def _act(self, operation: Operation, state: State | None, secrets: Mapping[str, Secret]) -> Outcome:
        match operation.effect:
            case StepKind.CREATE:
                return self._create(operation, secrets)
            case StepKind.START:
                return self._start(operation, state)
            case StepKind.STOP:
                return self._stop(operation, state)
            case StepKind.ADOPT:
                self._write(operation, state)
            case StepKind.DESTROY:
                return self._destroy(operation)
            case _:
                raise AssertionError(f"{operation.effect} is no effect here")
        return settled(operation, self._now(operation.uid))

    def _create(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        connection, spec, uid = self._connection.get(), operation.spec, operation.uid
        taken = self._stranger(connection, uid)
        if taken is not None:
            return taken
        for pin in spec.pins:
            if not self._pool.has_image(connection, pin.digest):
                return rejected(
                    "libvirt.image_missing", f"{pin.source} is not in the pool, or was written to"
                )
        template = definition.template_pin(spec)
        own = self._pool.text(connection, names.image(template.digest)) if template is not None else None
        place = definition.Place(self._pool.path(connection), connection.getInfo()[0], self._kind)
        xml = definition.define(operation, place, own)
        content = seed.iso(seed.files(operation, secrets)) if definition.domain_of(spec).seed else None
        refused = self._disks.place(connection, uid, spec, content)
        if refused is not None:
            return refused
        domain = connection.defineXMLFlags(xml, self._libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        domain.setAutostart(int(definition.domain_of(spec).autostart))
        wrong = self._differing(connection, domain, operation)
        if wrong:
            domain.undefineFlags(self._libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM)
            return failed("libvirt.not_as_declared", f"libvirt made something else of it: {'; '.join(wrong)}")
        return settled(operation, self._state(connection, uid))

    def _stranger(self, connection: Any, uid: str) -> Outcome | None:
        """Somebody else's domain under the node's name; libvirt would refuse the definition without saying whose."""
        try:
            other = connection.lookupByName(names.domain(uid))
        except self._libvirt.libvirtError as e:
            if e.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise
        return stranger(uid, other.UUIDString())

    def _differing(self, connection: Any, domain: Any, operation: Operation) -> list[str]:
        """What libvirt's definition does not have as it was declared."""
        sizes = self._disks.sizes(connection, operation.uid, operation.spec)
        around = Surroundings(bool(domain.autostart()), sizes, self._kind)
        root = _parsed(domain.XMLDesc(self._libvirt.VIR_DOMAIN_XML_INACTIVE))
        made = read_back(root, None, operation.fields, operation.uid, around)
        wanted = operation.fields
        return [
            f"{name} is {made.get(name, 'nothing')!r}, declared {wanted.get(name, 'nothing')!r}"
            for name in sorted(made.keys() | wanted.keys())
            if made.get(name) != wanted.get(name)
        ]

    def _start(self, operation: Operation, state: State | None) -> Outcome:
        connection = self._connection.get()
        for pin in operation.spec.pins:
            if not self._pool.has_image(connection, pin.digest):
                return failed(
                    "artifact.digest_mismatch",
                    f"{pin.source} in the pool was written to, or is gone; bring it again",
                )
        self._write(operation, state)
        domain = self._domain(connection, operation.uid)
        if domain is None:
            return settled(operation, None)
        # A saved state would go on with what ran when it was saved, not with what is placed now.
        saved = domain.hasManagedSaveImage(0)
        domain.createWithFlags(self._libvirt.VIR_DOMAIN_START_FORCE_BOOT if saved else 0)
        return settled(operation, self._now(operation.uid))

    def _stop(self, operation: Operation, state: State | None) -> Outcome:
        assert state is not None, "what is gone was answered before"
        uid, drain_s = operation.uid, operation.spec.drain.timeout / 1000
        self._write(operation, state)
        # A guest that stands still hears nothing.
        drained = state.seen.state != observe.PAUSED and self._drained(operation, drain_s)
        if not drained:
            # Killing what is dead already is an answer too, so this may be asked again over a new connection.
            self._connection.read(lambda connection: self._kill(connection, uid))
            self._connection.wait(lambda: self._is_off(uid), KILL_S)
        outcome = settled(operation, self._now(uid))
        if outcome.code != "libvirt.stopped":
            return outcome
        if drained:
            return succeeded("libvirt.drained")
        return succeeded("libvirt.killed", f"it did not shut down within {drain_s:g} s, and was turned off")

    def _drained(self, operation: Operation, drain_s: float) -> bool:
        """Asks the guest to shut down, and again, until it is off; False: it did not in time."""
        until_s = self._clock.monotonic() + drain_s
        while (left_s := until_s - self._clock.monotonic()) > 0:
            self._connection.read(lambda connection: self._press(connection, operation))
            if self._connection.wait(lambda: self._is_off(operation.uid), min(PRESS_AGAIN_S, left_s)):
                return True
        return False

    def _kill(self, connection: Any, uid: str) -> None:
        domain = self._domain(connection, uid)
        if domain is not None and domain.isActive():
            domain.destroyFlags(0)

    def _press(self, connection: Any, operation: Operation) -> None:
        """Asks the guest to shut down, by its agent where that is wanted and answers, else by the power button."""
        domain = self._domain(connection, operation.uid)
        if domain is None:
            return
        if domain.state(0)[0] == observe.PMSUSPENDED:
            domain.pMWakeup(0)
        by_agent = definition.domain_of(operation.spec).shutdown == "agent"
        ways = [self._libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN]
        if by_agent:
            ways.insert(0, self._libvirt.VIR_DOMAIN_SHUTDOWN_GUEST_AGENT)
        # 0: whatever this hypervisor has.
        for way in (*ways, 0):
            try:
                domain.shutdownFlags(way)
                return
            except self._libvirt.libvirtError as e:
                if self._connection.lost(e, connection):
                    raise
                # It ended by itself, or has no agent (yet): the next look, or the next way, tells.
                if e.get_error_code() == self._libvirt.VIR_ERR_OPERATION_INVALID:
                    return

    def _is_off(self, uid: str) -> bool:
        def look(connection: Any) -> bool:
            domain = self._domain(connection, uid)
            return domain is None or domain.state(0)[0] not in observe.ACTIVE

        return self._connection.read(look)

    def _destroy(self, operation: Operation) -> Outcome:
        connection, uid = self._connection.get(), operation.uid
        domain = self._domain(connection, uid)
        if domain is None:
            return settled(operation, None)  # somebody else was faster
        flags, lost = self._kept_with(domain, retain=operation.retain_data)
        # Volumes first: while the domain is defined, a lookup finds the rest still to be done.
        self._disks.remove(connection, uid, operation.spec, retain=operation.retain_data)
        domain.undefineFlags(flags)
        outcome = settled(operation, self._now(uid))
        return (
            succeeded("libvirt.gone", f"{', '.join(lost)} went with it")
            if lost and outcome.code == "libvirt.gone"
            else outcome
        )

    def _kept_with(self, domain: Any, *, retain: bool) -> tuple[int, list[str]]:
        """What libvirt keeps with a domain and refuses to lose unasked: the flags for it, and its names."""
        lib = self._libvirt
        flags, lost = 0, []
        if domain.hasManagedSaveImage(0):
            flags |= lib.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            lost.append("a saved state")
        if (snapshots := domain.snapshotNum(0)) > 0:
            flags |= lib.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            lost.append(f"{snapshots} snapshots")
        if (
            domain.isPersistent()
            and _parsed(domain.XMLDesc(lib.VIR_DOMAIN_XML_INACTIVE)).find("os/nvram") is not None
        ):
            flags |= lib.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM if retain else lib.VIR_DOMAIN_UNDEFINE_NVRAM
            lost += [] if retain else ["its firmware's variables"]
        return flags, lost

    def _write(self, operation: Operation, state: State | None) -> None:
        """Writes the operation into the domain's metadata, before the call that it is about."""
        assert state is not None, "what is gone was answered before"
        lib = self._libvirt
        text = metadata.text(metadata.of_operation(operation, state.ours))

        def write(connection: Any) -> None:
            domain = self._domain(connection, operation.uid)
            if domain is None:
                return  # the look that follows finds that out
            where = lib.VIR_DOMAIN_AFFECT_CONFIG | (lib.VIR_DOMAIN_AFFECT_LIVE if domain.isActive() else 0)
            domain.setMetadata(lib.VIR_DOMAIN_METADATA_ELEMENT, text, names.KEY, names.XML_NAMESPACE, where)

        # Writing the same once more changes nothing.
        self._connection.read(write)

    @property
    def _disks(self) -> Disks:
        return Disks(self._pool)

    def _used(self, connection: Any) -> frozenset[str]:
        """The volumes that some domain boots from, or whose disks lie over them."""
        used: set[str] = set()
        for domain in connection.listAllDomains(0):
            xml = domain.XMLDesc(self._libvirt.VIR_DOMAIN_XML_INACTIVE if domain.isPersistent() else 0)
            root = _parsed(xml)
            paths = [root.findtext(f"os/{part}") or "" for part in ("kernel", "initrd")]
            paths += [source.get("file") or "" for source in root.findall("devices/disk/source")]
            used |= {path.rpartition("/")[2] for path in paths}
        return frozenset(used | self._pool.backings(connection))

    def _answered(self, call: Callable[[], T], *, sent: bool) -> T | Outcome:
        """Runs a call and turns libvirt's errors into outcomes: an answer is final, its absence unknown."""
        try:
            return call()
        except self._libvirt.libvirtError as e:
            if self._connection.lost(e):
                return (unknown if sent else rejected)("libvirt.no_answer", str(e))
            return failed("libvirt.refused", str(e), error=e.get_error_code())
        except Unreachable as e:
            return (unknown if sent else rejected)(e.code, e.message)
        except OSError as e:
            return (unknown if sent else rejected)("libvirt.no_answer", str(e))
        except (FleetctlError, ValueError) as e:
            return rejected("libvirt.unusable", str(e))

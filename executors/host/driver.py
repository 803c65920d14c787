"""The driver of substrate `host`, over any transport: it sends commands and reads answers, and keeps no state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from executors import health
from executors.clock import Clock, SystemClock
from executors.command import Hear
from executors.drain import by_http, drain, drained
from executors.driver import DriverError, Operation, ProbeResult, ProbeTarget, StagedArtifact, Tell, silent
from executors.hooks import HookCall
from executors.host import commands, parse, shelf
from executors.host.hooks import RecordedHooks
from executors.host.layout import Layout
from executors.host.placed import PlacedFile
from executors.host.process import PROCESS
from executors.host.supervisor import Supervisor
from executors.host.supervisors import SUPERVISORS
from executors.outcome import Outcome, OutcomeState, failed, rejected, unknown
from executors.transport import OutcomeLost, Transport, TransportError
from manifests.secret import Secret
from planner.observed import HealthState, ObservedHost
from planner.plan import StepKind
from planner.spec import ArtifactPin, FileSpec

# A node's file travels inside the script; past this it belongs into the artifact.
FILE_MAX_B = 4 * 2**20
_ERROR_TAIL_B = 1000
_EFFECTS = frozenset(
    {StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.RELOAD, StepKind.DESTROY, StepKind.ADOPT}
)


class HostReader:
    """Looks at the nodes of one host; nothing in it can change anything there."""

    def __init__(self, name: str, transport: Transport, root: str) -> None:
        self._name = name
        self._transport = transport
        self._layout = Layout(root)

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        """All nodes of these fleets in one exec; an unreachable host is a value, not an exception."""
        try:
            done = self._transport.run(commands.observe(self._layout))
        except (TransportError, OutcomeLost) as e:
            return self._unreachable(e.message)
        if not done.ok:
            return self._unreachable(f"the host's shell exited {done.status}: {_tail(done.stderr)}")
        return parse.observation(done.stdout, self._name, fleets, self._layout.root)

    def _unreachable(self, error: str) -> ObservedHost:
        return ObservedHost(name=self._name, substrate="host", reachable=False, error=error)

    def probe(self, target: ProbeTarget) -> ProbeResult:
        """Asks the node once; where `target.instance` is given, the answer counts only from that very start."""
        answer = health.probe(
            self._transport, target, lambda argv, timeout_s: self._check(target, argv, timeout_s)
        )
        if target.instance is None or answer.state is HealthState.UNKNOWN:
            return answer
        try:
            done = self._transport.run(commands.alive(self._layout, target.uid, target.instance))
        except (TransportError, OutcomeLost) as e:
            return ProbeResult(HealthState.UNKNOWN, f"the host did not answer: {e.message}")
        fact = parse.result(done.stdout)
        if fact.state is OutcomeState.FAILED:
            return ProbeResult(HealthState.FAILING, fact.detail)
        return answer

    def _check(self, target: ProbeTarget, argv: tuple[str, ...], timeout_s: float) -> ProbeResult:
        done = self._transport.run(commands.probe(self._layout, target.uid, argv, timeout_s))
        said = _tail(done.stdout or done.stderr, 200)
        if done.ok:
            return ProbeResult(HealthState.PASSING, f"exit status 0 {said}".strip())
        return ProbeResult(HealthState.FAILING, f"{parse.exit_text(done.status)} {said}".strip())

    def logs(self, uid: str, lines: int) -> str:
        """The last lines of the node's output."""
        done = self._transport.run(commands.logs(self._layout, uid, lines))
        return done.stdout.decode(errors="replace")

    def follow(self, uid: str, lines: int, hear: Hear) -> None:
        """The last lines of the node's output, then what comes; a node that ends may come back, so it goes on."""
        done = self._transport.stream(commands.follow(self._layout, uid, lines), hear)
        if done.status == commands.NO_NODE:
            raise self._absent(uid)

    def _absent(self, uid: str) -> DriverError:
        return DriverError(f"there is nothing of node {uid} on host {self._name}", code="host.absent")

    def staged(self, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
        """Every artifact below the host's root, whoever brought it."""
        del pins
        done = self._transport.run(shelf.listing(self._layout))
        return shelf.read(done.stdout, self._layout)

    def close(self) -> None:
        """Ends the connection."""
        self._transport.close()


class HostDriver(HostReader):
    """Performs one effect at a time on one host. Safe for several threads: the host itself has the locks."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        root: str,
        supervisor: str = PROCESS.name,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(name, transport, root)
        self._clock = clock or SystemClock()
        if supervisor not in SUPERVISORS:
            raise DriverError(f"host {name}: there is no supervisor {supervisor!r}")
        self._supervisor: Supervisor = SUPERVISORS[supervisor]

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        """Brings a verified artifact to its place by digest, readable and executable for all."""
        del tell  # an upload says nothing on its way
        path = Path(local_path)
        try:
            with path.open("rb") as source:
                size_b = path.stat().st_size
                target = self._layout.artifact(pin.digest, pin.name)
                self._transport.put(source, size_b, pin.digest, target, mode=0o755)
        except OSError as e:
            raise DriverError(
                f"the artifact {local_path} cannot be read: {e.strerror or e}", code="artifact.unreadable"
            ) from e

    def unstage(self, artifact: StagedArtifact) -> str | None:
        """Removes an artifact's folder."""
        done = self._transport.run(shelf.removal(self._layout, artifact.digest))
        if not done.ok:
            raise DriverError(f"{artifact.where} could not be removed: {_tail(done.stderr)}")
        return None

    def execute(self, uid: str, argv: Sequence[str], hear: Hear, timeout_s: float) -> int:
        """Runs a command in the node's folder, as the user that the host is reached with."""
        done = self._transport.stream(commands.execute(self._layout, uid, argv, timeout_s), hear)
        if done.status == commands.NO_NODE:
            raise self._absent(uid)
        # A transport of this machine says a signal as a negative number.
        return done.status if done.status >= 0 else 128 - done.status

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """One effect, at most once per operation id and attempt; see `executors.driver.Driver`."""
        if operation.effect is StepKind.DRAIN:
            return drain(operation, lambda: self._begin_drain(operation), self.probe, self._clock)
        assert operation.effect in _EFFECTS, operation.effect
        try:
            files = self._files(operation, secrets)
            command = commands.effect(self._layout, operation, self._supervisor, secrets, files)
        except DriverError as e:
            return rejected(e.code, e.message)
        try:
            done = self._transport.run(command)
        except TransportError as e:
            return failed(e.code, e.message, performed=0)
        except OutcomeLost as e:
            said = parse.result(e.stdout)
            return said if said.final else unknown(e.code, e.message)
        return _judged(parse.result(done.stdout), done.status, done.stderr)

    def lookup(self, operation: Operation) -> Outcome:
        """What became of an operation, from the node's record and process; see docs/effects.md."""
        if operation.effect is StepKind.DRAIN:
            return self._find_drain(operation)
        command = commands.lookup(self._layout, operation, self._supervisor)
        try:
            done = self._transport.run(command)
        except (TransportError, OutcomeLost) as e:
            return unknown(e.code, e.message)
        return _judged(parse.result(done.stdout), done.status, done.stderr)

    def hooks(self) -> RecordedHooks:
        """Hooks that run on this host."""
        return RecordedHooks(self._transport, self._layout)

    def _begin_drain(self, operation: Operation) -> Outcome:
        call = operation.spec.drain.http
        if call is not None:
            return by_http(self._transport, operation.spec, call)
        return self.hooks().perform(_drain_call(operation))

    def _find_drain(self, operation: Operation) -> Outcome:
        found = drained(operation, self.probe)
        if found.final or operation.spec.drain.command is None:
            return found
        recorded = self.hooks().lookup(_drain_call(operation))
        # Begun well, and not over: the drain itself is what is still open.
        return found if recorded.state is OutcomeState.SUCCEEDED and operation.spec.drain.until else recorded

    def _files(self, operation: Operation, secrets: Mapping[str, Secret]) -> tuple[PlacedFile, ...]:
        if operation.effect not in (StepKind.CREATE, StepKind.RELOAD):
            return ()
        return tuple(
            PlacedFile(
                key=f"files.{file.path}",
                path=self._layout.file(operation.uid, file.path),
                mode=file.mode,
                secret=file.secret is not None,
                data=_content(file, secrets),
            )
            for file in operation.spec.files
        )


def _drain_call(operation: Operation) -> HookCall:
    """A drain's command, run and recorded as a hook on the host is."""
    command = operation.spec.drain.command
    assert command is not None, "a drain without a call is no step"
    return HookCall(
        operation_id=operation.operation_id,
        attempt=operation.attempt,
        epoch=operation.epoch,
        moment="drain",
        argv=command.command,
        timeout_s=operation.spec.drain.timeout / 1000,
        where="host",
        uid=operation.uid,
        as_node=True,
    )


def _content(file: FileSpec, secrets: Mapping[str, Secret]) -> bytes:
    if file.secret is not None:
        return secrets[file.secret].reveal().encode()
    if file.source is None:
        return (file.content or "").encode()
    try:
        with Path(file.source).open("rb") as source:
            data = source.read(FILE_MAX_B + 1)
    except OSError as e:
        raise DriverError(
            f"the file {file.source} cannot be read: {e.strerror or e}", code="file.unreadable"
        ) from e
    if len(data) > FILE_MAX_B:
        raise DriverError(f"the file {file.source} is larger than {FILE_MAX_B} bytes", code="file.too_large")
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if file.digest is not None and found != file.digest:
        raise DriverError(
            f"the file {file.source} has changed since the plan: {found}, planned was {file.digest}",
            code="file.digest_mismatch",
        )
    return data


def _judged(outcome: Outcome, status: int, stderr: bytes) -> Outcome:
    """Adds what the shell said where there is no result; nothing is concluded from it."""
    if outcome.code != "host.no_result":
        return outcome
    return unknown(outcome.code, f"{outcome.detail} (exit status {status}): {_tail(stderr)}")


def _tail(data: bytes, limit_b: int = _ERROR_TAIL_B) -> str:
    return data[-limit_b:].decode(errors="replace").strip()

"""What can act on a Docker engine: one call for one effect, evidence from the engine before any guess.

The engine checks no epoch, so the driver looks before it acts; a fenced holder that wakes in between can
act once more (docs/effects.md), and unique names keep it from creating twice.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from executors.clock import Clock, SystemClock
from executors.command import Hear
from executors.docker import config, names, observe, record
from executors.docker.evidence import EFFECTS, STILL_RUNNING, State, fenced, impossible, settled
from executors.docker.execution import exchange
from executors.docker.images import Images
from executors.docker.reader import DockerReader, said
from executors.drain import by_command, by_http, drain, drained
from executors.driver import DriverError, Operation, StagedArtifact, Tell, silent
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from executors.transport import OutcomeLost, Transport
from manifests.errors import FleetctlError
from manifests.secret import Secret
from planner.plan import StepKind
from planner.spec import ArtifactPin

if TYPE_CHECKING:
    import docker

T = TypeVar("T")


class DockerDriver(DockerReader):
    """One Docker engine, and what may be done there."""

    def __init__(
        self,
        host: str,
        connect: Callable[[], docker.APIClient],
        transport: Transport,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(host, connect, transport)
        self._clock = clock or SystemClock()
        self._images: Images | None = None

    def lookup(self, operation: Operation) -> Outcome:
        if operation.effect is StepKind.DRAIN:
            return drained(operation, self.probe)

        def look() -> Outcome:
            found = settled(operation, self._state(operation.uid))
            if operation.effect is StepKind.STOP and found.code == STILL_RUNNING:
                return self._stopping(operation) or found
            return found

        return self._engine_errors(look, sent=True)

    def _stopping(self, operation: Operation) -> Outcome | None:
        """Unknown while it may be draining: the engine keeps the latest signals that it has sent among its events."""
        inspected = self._inspect(names.container(operation.uid))
        if inspected is None:
            return None
        now_s = observe.epoch_s(self._api().info()["SystemTime"])
        # Past this the engine itself has sent SIGKILL; what runs then was not stopped.
        since_s = max(
            observe.epoch_s(inspected["State"]["StartedAt"]),
            now_s - operation.spec.drain.timeout / 1000 - config.STOP_SLACK_S,
        )
        filters = {"container": inspected["Id"], "event": "kill"}
        sent = self._api().events(since=f"{since_s:.9f}", until=f"{now_s:.9f}", filters=filters, decode=True)
        wanted = str(int(signal.Signals[f"SIG{operation.spec.drain.signal}"]))
        if any(event["Actor"]["Attributes"].get("signal") == wanted for event in sent):
            return unknown("docker.stopping", "the signal was sent, and it has not ended yet")
        return None

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> None:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            self._pinned().stage(pin, local_path, tell)
        except (DockerException, RequestException) as e:
            raise DriverError(f"host/{self._host}: {pin.source}: {said(e)}") from e

    def unstage(self, artifact: StagedArtifact) -> str | None:
        """Removes the image; the engine itself refuses while a container is made from it, and says so."""
        from docker.errors import APIError, DockerException, ImageNotFound
        from requests.exceptions import RequestException

        try:
            self._api().remove_image(artifact.where, force=False, noprune=False)
        except ImageNotFound:
            return None
        except APIError as e:
            if e.status_code == 409:
                return said(e)
            raise DriverError(f"{artifact.where} could not be removed: {said(e)}") from e
        except (DockerException, RequestException) as e:
            raise DriverError(f"host/{self._host}: {said(e)}") from e
        return None

    def execute(self, uid: str, argv: Sequence[str], hear: Hear, timeout_s: float) -> int:
        """Runs a command in the node's container. The engine ends none: past its time it is left there, and told."""
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        inspected = self._engine_errors(lambda: self._inspect(names.container(uid)), sent=False)
        if isinstance(inspected, Outcome):
            raise DriverError(f"host/{self._host}: {inspected.detail}")
        if inspected is None:
            raise self._absent(uid)
        if not inspected["State"].get("Running"):
            raise DriverError(
                f"the container {names.container(uid)} does not run, so nothing can be run in it",
                hint="`fleetctl logs` shows what it has said",
                code="docker.not_running",
            )
        try:
            made = self._api().exec_create(inspected["Id"], list(argv))["Id"]
            exchange(self._api(), made, hear, self._host, timeout_s)
            return int(self._api().exec_inspect(made)["ExitCode"])
        except APIError as e:
            raise DriverError(f"host/{self._host}: {said(e)}", code="docker.refused") from e
        except (DockerException, RequestException) as e:
            raise OutcomeLost(f"host/{self._host}: {said(e)}") from e

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """Looks first (replay, fencing), then makes the one call; a call without an answer is unknown."""
        if operation.effect is StepKind.CREATE:
            # The name is the fence: the engine refuses a second container, and only then there is one to look at.
            request = self._engine_errors(lambda: self._create_request(operation, secrets), sent=False)
            if isinstance(request, Outcome):
                return request
            return self._engine_errors(lambda: self._create(operation, request), sent=True)
        if operation.effect is StepKind.DRAIN:
            return self._drain(operation)
        refused = self._engine_errors(lambda: _known(operation, self._state(operation.uid)), sent=False)
        if refused is not None:
            return refused
        return self._engine_errors(lambda: self._act(operation, secrets), sent=True)

    def _drain(self, operation: Operation) -> Outcome:
        refused = self._engine_errors(lambda: fenced(operation, self._state(operation.uid)), sent=False)
        if refused is not None:
            return refused
        call, command = operation.spec.drain.http, operation.spec.drain.command

        def begin() -> Outcome:
            if call is not None:
                return by_http(self._transport, operation.spec, call)
            assert command is not None, "a drain without a call is no step"
            return self._engine_errors(
                lambda: by_command(self._exec(names.container(operation.uid), command.command)), sent=True
            )

        return drain(operation, begin, self.probe, self._clock)

    def _act(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        api, name, spec = self._api(), names.container(operation.uid), operation.spec
        match operation.effect:
            case StepKind.START:
                self._place_if_new(operation, secrets)
                api.start(name)
            case StepKind.STOP:
                api.stop(name, timeout=max(1, spec.drain.timeout // 1000))
            case StepKind.RELOAD:
                self._place(operation, secrets)
                api.kill(name, signal=f"SIG{spec.reload_signal}")
                return succeeded("docker.reloaded")
            case StepKind.ADOPT:
                self._put(name, {record.inside(names.RECORD): self._record_bytes(operation)})
            case StepKind.DESTROY:
                return self._destroy(operation)
            case _:
                raise AssertionError(f"{operation.effect} is no effect")
        return settled(operation, self._state(operation.uid))

    def _create_request(
        self, operation: Operation, secrets: Mapping[str, Secret]
    ) -> dict[str, Any] | Outcome:
        """What is to be sent, or why it is not."""
        image_id = self._pinned().find(operation.spec.artifact)
        if image_id is None:
            return rejected("docker.image_missing", f"{operation.spec.artifact.source} is not on the engine")
        lost = self._anonymous_volumes(operation, image_id)
        if lost:
            return rejected(
                "docker.anonymous_volumes",
                f"the image declares {', '.join(lost)}, which a replacement would lose: name them under "
                "container.volumes, or set container.lose_anonymous_volumes",
            )
        return config.create_request(operation, image_id, secrets)

    def _create(self, operation: Operation, request: dict[str, Any]) -> Outcome:
        from docker.errors import APIError

        try:
            made = self._api().create_container_from_config(request, names.container(operation.uid))
        except APIError as e:
            if e.status_code != 409:
                raise
            state = self._state(operation.uid)
            if state is None:
                return unknown(
                    "docker.name_conflict",
                    "the engine says that the name is taken, and lists nobody under it",
                )
            return _known(operation, state) or settled(operation, state)
        return succeeded("docker.created", container=str(made["Id"])[:12])

    def _anonymous_volumes(self, operation: Operation, image_id: str) -> list[str]:
        container = config.container_of(operation.spec)
        if container.lose_anonymous_volumes:
            return []
        named = {m["Target"] for m in config.mounts(operation.uid, operation.spec, container)}
        return sorted(
            p for p in self._pinned().volumes(image_id) if p not in named and p not in container.tmpfs
        )

    def _destroy(self, operation: Operation) -> Outcome:
        api, name = self._api(), names.container(operation.uid)
        api.remove_container(name, v=True, force=False)
        for volume in api.volumes(filters={"name": f"{names.PREFIX}-{operation.uid}-"})["Volumes"] or []:
            # Managed files (secrets among them) are written anew with the next container; the rest is data.
            if not operation.retain_data or volume["Name"] == names.volume(operation.uid, names.FILES_VOLUME):
                api.remove_volume(volume["Name"])
        return settled(operation, self._state(operation.uid))

    def _place_if_new(self, operation: Operation, secrets: Mapping[str, Secret]) -> None:
        """Files are written before the first start of a container, when nobody can read half of them."""
        if not operation.spec.files:
            return
        inspected = self._inspect(names.container(operation.uid))
        if inspected is not None and observe.instance(inspected) is None:
            self._put(inspected["Id"], record.files_to_place(operation.spec, secrets))

    def _place(self, operation: Operation, secrets: Mapping[str, Secret]) -> None:
        files = record.files_to_place(operation.spec, secrets)
        files[record.inside(names.RECORD)] = self._record_bytes(operation)
        self._put(names.container(operation.uid), files)

    def _record_bytes(self, operation: Operation) -> tuple[bytes, int]:
        inspected = self._inspect(names.container(operation.uid)) or {}
        text = json.dumps(record.record_of(operation, str(inspected.get("Id"))), sort_keys=True)
        return text.encode(), 0o600

    def _put(self, container: str, files: Mapping[str, tuple[bytes, int]]) -> None:
        for folder, inside in record.by_mount(files):
            self._api().put_archive(container, folder, record.tar_of(inside))

    def _pinned(self) -> Images:
        if self._images is None:
            self._images = Images(self._api())
        return self._images

    def _engine_errors(self, call: Callable[[], T], *, sent: bool) -> T | Outcome:
        """Runs a call and turns the engine's errors into outcomes: an answer is final, its absence unknown."""
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        try:
            return call()
        except APIError as e:
            if e.status_code is not None and e.status_code < 500:
                return failed("docker.refused", said(e), status=e.status_code)
            return failed("docker.error", said(e), status=e.status_code) if not sent else _server_error(e)
        except (RequestException, OSError) as e:
            return (unknown if sent else rejected)("docker.no_answer", said(e))
        except (DockerException, FleetctlError, ValueError) as e:
            return rejected("docker.unusable", str(e))


def _known(operation: Operation, state: State | None) -> Outcome | None:
    """What the present state says of an operation without any call: refused, done already, or impossible."""
    if (stale := fenced(operation, state)) is not None:
        return stale
    if state is not None and EFFECTS[operation.effect].replays(operation, state):
        return settled(operation, state)
    return impossible(operation, state)


def _server_error(error: Any) -> Outcome:
    """A 500 with the engine's own word that it could not do it is an answer; anything else leaves it open."""
    words = said(error)
    final = ("port is already allocated", "address already in use", "no such file", "executable file not found",
             "OCI runtime create failed", "not found", "cannot start", "failed to create")  # fmt: skip
    if any(word in words for word in final):
        return failed("docker.error", words, status=error.status_code)
    return unknown("docker.error", words, status=error.status_code)

"""The docker driver: one engine, one call for one effect, evidence from the engine before any guess.

The engine checks no epoch, so the driver looks before it acts; a fenced holder that wakes in between can
act once more (docs/effects.md), and unique names keep it from creating twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from executors.docker import config, names, observe, record
from executors.docker.evidence import EFFECTS, fenced, impossible, settled
from executors.docker.images import Images
from executors.driver import DriverError, Operation, ProbeResult, ProbeTarget
from executors.health import probe as probe_by_transport
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from executors.transport import Transport
from manifests.errors import FleetctlError
from manifests.secret import Secret
from planner.observed import HealthState, ObservedHost, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin

if TYPE_CHECKING:
    import docker

T = TypeVar("T")
LOG_MAX_B = 64 * 1024
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}


class DockerDriver:
    """One Docker engine. `connect` gives the client when it is first needed; `transport` carries probes."""

    def __init__(self, host: str, connect: Callable[[], docker.APIClient], transport: Transport) -> None:
        self._host = host
        self._connect = connect
        self._transport = transport
        self._client: Any = None
        self._images: Images | None = None

    # -- looking ----------------------------------------------------------------------------------------

    def observe(self, fleets: frozenset[str]) -> ObservedHost:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            api = self._api()
            info = api.version()
            nodes = tuple(self._nodes(fleets))
        except DriverError as e:
            return ObservedHost(name=self._host, substrate="docker", reachable=False, error=e.message)
        except (DockerException, RequestException, OSError) as e:
            return ObservedHost(name=self._host, substrate="docker", reachable=False, error=_said(e))
        return ObservedHost(
            name=self._host,
            substrate="docker",
            reachable=True,
            arch=_ARCHITECTURES.get(info.get("Arch", ""), info.get("Arch")),
            os=info.get("Os"),
            nodes=nodes,
        )

    def probe(self, target: ProbeTarget) -> ProbeResult:
        health = target.spec.health
        if health.container is not None:
            inspected = self._inspect(names.container(target.uid))
            if inspected is None:
                return ProbeResult(HealthState.FAILING, "the container is gone")
            state = observe.container_health(inspected)
            last = (inspected["State"].get("Health") or {}).get("Log") or []
            said = str(last[-1].get("Output", "")).strip() if last else ""
            if state is HealthState.NONE:
                return ProbeResult(
                    HealthState.FAILING, "the image has no health check, and the manifest asks for one"
                )
            return ProbeResult(
                state, f"{inspected['State']['Health']['Status']}" + (f": {said}" if said else "")
            )

        def check(command: tuple[str, ...], timeout_s: float) -> ProbeResult:
            del timeout_s
            return self._exec(names.container(target.uid), command)

        return probe_by_transport(self._transport, target, check)

    def logs(self, uid: str, lines: int) -> str:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            data: bytes = self._api().logs(names.container(uid), tail=lines)
        except (DockerException, RequestException, DriverError):
            return ""
        return data[-LOG_MAX_B:].decode("utf-8", "replace")

    def lookup(self, operation: Operation) -> Outcome:
        return self._engine_errors(lambda: settled(operation, self._state(operation.uid)), sent=True)

    # -- acting -----------------------------------------------------------------------------------------

    def stage(self, pin: ArtifactPin, local_path: str) -> None:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            self._pinned().stage(pin, local_path)
        except (DockerException, RequestException) as e:
            raise DriverError(f"host/{self._host}: {pin.source}: {_said(e)}") from e

    def perform(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        """Looks first (replay, fencing), then makes the one call; a call without an answer is unknown."""

        def look() -> Outcome | None:
            state = self._state(operation.uid)
            if (stale := fenced(operation, state)) is not None:
                return stale
            if state is not None and EFFECTS[operation.effect].replays(operation, state):
                return settled(operation, state)
            return impossible(operation, state)

        refused = self._engine_errors(look, sent=False)
        if refused is not None:
            return refused
        return self._engine_errors(lambda: self._act(operation, secrets), sent=True)

    def _act(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        api, name, spec = self._api(), names.container(operation.uid), operation.spec
        match operation.effect:
            case StepKind.CREATE:
                return self._create(operation, secrets)
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
                self._put(name, {record.inside(names.RECORD): _record_bytes(operation)})
            case StepKind.DESTROY:
                return self._destroy(operation)
            case _:
                raise AssertionError(f"{operation.effect} is no effect")
        return settled(operation, self._state(operation.uid))

    def _create(self, operation: Operation, secrets: Mapping[str, Secret]) -> Outcome:
        from docker.errors import APIError

        image_id = self._pinned().find(operation.spec.artifact)
        if image_id is None:
            return rejected("docker.image_missing", f"{operation.spec.artifact.source} is not on the engine")
        request = config.create_request(operation, image_id, secrets)
        lost = self._anonymous_volumes(operation, image_id)
        if lost:
            return rejected(
                "docker.anonymous_volumes",
                f"the image declares {', '.join(lost)}, which a replacement would lose: name them under "
                "container.volumes, or set container.lose_anonymous_volumes",
            )
        try:
            made = self._api().create_container_from_config(request, names.container(operation.uid))
        except APIError as e:
            if e.status_code == 409:
                return self._name_taken(operation)
            raise
        return succeeded("docker.created", container=str(made["Id"])[:12])

    def _anonymous_volumes(self, operation: Operation, image_id: str) -> list[str]:
        container = config.container_of(operation.spec)
        if container.lose_anonymous_volumes:
            return []
        declared = self._api().inspect_image(image_id)["Config"].get("Volumes") or {}
        named = {m["Target"] for m in config.mounts(operation.uid, operation.spec, container)}
        return sorted(path for path in declared if path not in named and path not in container.tmpfs)

    def _name_taken(self, operation: Operation) -> Outcome:
        state = self._state(operation.uid)
        if state is None:
            return unknown(
                "docker.name_conflict", "the engine says that the name is taken, and lists nobody under it"
            )
        inspected, _ = state
        if not observe.owned(inspected):
            return failed(
                "docker.name_taken",
                f"container {inspected['Id'][:12]} has the name {names.container(operation.uid)} and is not ours; "
                "nothing was touched",
            )
        return settled(operation, state)

    def _destroy(self, operation: Operation) -> Outcome:
        api, name = self._api(), names.container(operation.uid)
        api.remove_container(name, v=True, force=False)
        if not operation.retain_data:
            for volume in api.volumes(filters={"name": f"{names.PREFIX}-{operation.uid}-"})["Volumes"] or []:
                api.remove_volume(volume["Name"])
        return settled(operation, self._state(operation.uid))

    def _place_if_new(self, operation: Operation, secrets: Mapping[str, Secret]) -> None:
        """Files are written before the first start of a container, when nobody can read half of them."""
        inspected = self._inspect(names.container(operation.uid))
        if operation.spec.files and inspected is not None and observe.instance(inspected) is None:
            self._put(inspected["Id"], record.files_to_place(operation.spec, secrets))

    def _place(self, operation: Operation, secrets: Mapping[str, Secret]) -> None:
        files = record.files_to_place(operation.spec, secrets)
        files[record.inside(names.RECORD)] = _record_bytes(operation)
        self._put(names.container(operation.uid), files)

    def _put(self, container: str, files: Mapping[str, tuple[bytes, int]]) -> None:
        for folder, inside in record.by_mount(files):
            self._api().put_archive(container, folder, record.tar_of(inside))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._transport.close()

    # -- the engine -------------------------------------------------------------------------------------

    def _api(self) -> Any:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _pinned(self) -> Images:
        if self._images is None:
            self._images = Images(self._api())
        return self._images

    def _nodes(self, fleets: frozenset[str]) -> Iterator[ObservedNode]:
        listed = self._api().containers(all=True, filters={"label": names.UID})
        for summary in sorted(listed, key=lambda c: str(c["Labels"].get(names.UID))):
            if fleets and summary["Labels"].get(names.FLEET) not in fleets:
                continue
            inspected = self._inspect(summary["Id"])
            if inspected is not None:  # it can go away between the list and the look
                yield self._node(inspected)

    def _node(self, inspected: Mapping[str, Any]) -> ObservedNode:
        known = self._record(inspected)
        labels = observe.identity(inspected, known)
        managed = [f for f in json.loads(labels.get(names.FIELDS, "{}")) if f.startswith("files.")]
        files = {field: self._file_field(inspected, field, labels) for field in managed}
        return observe.node(inspected, known, files)

    def _file_field(self, inspected: Mapping[str, Any], field: str, labels: Mapping[str, str]) -> str | None:
        """The file as it is; one that holds a secret stays as recorded while it is there (its digest is keyed)."""
        found = self._get(inspected["Id"], record.inside(field.removeprefix("files.")))
        recorded: str = json.loads(labels[names.FIELDS])[field]
        if found is None:
            # Before the first start nothing was placed yet, and nothing is missing.
            return recorded if observe.instance(inspected) is None else None
        return recorded if "sha256:" not in recorded else record.file_field(*found)

    def _record(self, inspected: Mapping[str, Any]) -> dict[str, str] | None:
        if not record.has_files_volume(inspected):
            return None
        found = self._get(inspected["Id"], record.inside(names.RECORD))
        try:
            return dict(json.loads(found[0])) if found is not None else None
        except ValueError:
            return None

    def _state(self, uid: str) -> tuple[dict[str, Any], dict[str, str] | None] | None:
        """The node's container with its record, or None when there is none."""
        inspected = self._inspect(names.container(uid))
        return None if inspected is None else (inspected, self._record(inspected))

    def _inspect(self, container: str) -> dict[str, Any] | None:
        from docker.errors import NotFound

        try:
            return dict(self._api().inspect_container(container))
        except NotFound:
            return None

    def _get(self, container: str, path: str) -> tuple[bytes, int] | None:
        from docker.errors import NotFound

        try:
            stream, _ = self._api().get_archive(container, path)
            return record.read_tar(b"".join(stream))
        except NotFound:
            return None

    def _exec(self, container: str, command: tuple[str, ...]) -> ProbeResult:
        from docker.errors import APIError

        try:
            made = self._api().exec_create(container, list(command))
            output: bytes = self._api().exec_start(made["Id"])
            status = self._api().exec_inspect(made["Id"])["ExitCode"]
        except APIError as e:
            return ProbeResult(HealthState.FAILING, _said(e))
        said = " ".join(output.decode("utf-8", "replace").split())[:120]
        return ProbeResult(
            HealthState.PASSING if status == 0 else HealthState.FAILING,
            f"exit status {status}" + (f": {said}" if said else ""),
        )

    def _engine_errors(self, call: Callable[[], T], *, sent: bool) -> T | Outcome:
        """Runs a call and turns the engine's errors into outcomes: an answer is final, its absence unknown."""
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        try:
            return call()
        except APIError as e:
            if e.status_code is not None and e.status_code < 500:
                return failed("docker.refused", _said(e), status=e.status_code)
            return failed("docker.error", _said(e), status=e.status_code) if not sent else _server_error(e)
        except (RequestException, OSError) as e:
            return (unknown if sent else rejected)("docker.no_answer", _said(e))
        except (DockerException, FleetctlError, ValueError) as e:
            return rejected("docker.unusable", str(e))


def _server_error(error: Any) -> Outcome:
    """A 500 with the engine's own word that it could not do it is an answer; anything else leaves it open."""
    said = _said(error)
    final = ("port is already allocated", "address already in use", "no such file", "executable file not found",
             "OCI runtime create failed", "not found", "cannot start", "failed to create")  # fmt: skip
    if any(word in said for word in final):
        return failed("docker.error", said, status=error.status_code)
    return unknown("docker.error", said, status=error.status_code)


def _record_bytes(operation: Operation) -> tuple[bytes, int]:
    return json.dumps(record.record_of(operation), sort_keys=True).encode(), 0o600


def _said(error: BaseException) -> str:
    explanation = getattr(error, "explanation", None)
    return str(explanation or error)

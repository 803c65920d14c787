"""What can look at a Docker engine and change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from executors.command import Hear
from executors.docker import images, names, observe, record
from executors.driver import DriverError, ProbeResult, ProbeTarget, StagedArtifact
from executors.health import probe as probe_by_transport
from executors.transport import Transport
from planner.observed import HealthState, ObservedHost, ObservedNode
from planner.spec import ArtifactPin

if TYPE_CHECKING:
    import docker

LOG_MAX_B = 64 * 1024
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}


class DockerReader:
    """One Docker engine. `connect` gives the client when it is first needed; `transport` carries probes."""

    def __init__(self, host: str, connect: Callable[[], docker.APIClient], transport: Transport) -> None:
        self._host = host
        self._connect = connect
        self._transport = transport
        self._client: Any = None

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
            return ObservedHost(name=self._host, substrate="docker", reachable=False, error=said(e))
        return ObservedHost(
            name=self._host,
            substrate="docker",
            reachable=True,
            arch=_ARCHITECTURES.get(info.get("Arch", ""), info.get("Arch")),
            os=info.get("Os"),
            nodes=nodes,
        )

    def probe(self, target: ProbeTarget) -> ProbeResult:
        """Asks the node once; where `target.instance` is given, the answer counts only from that very start."""
        answer = self._ask(target)
        if target.instance is None or answer.state is HealthState.UNKNOWN:
            return answer
        inspected = self._inspect(names.container(target.uid))
        if inspected is None:
            return ProbeResult(HealthState.FAILING, "the container is gone")
        if not inspected["State"].get("Running") or observe.instance(inspected) != target.instance:
            code = inspected["State"].get("ExitCode")
            return ProbeResult(HealthState.FAILING, f"that start of it has ended (exit code {code})")
        return answer

    def _ask(self, target: ProbeTarget) -> ProbeResult:
        if target.spec.health.container is not None:
            return self._own_check(target.uid)

        def check(command: tuple[str, ...], timeout_s: float) -> ProbeResult:
            del timeout_s
            return self._exec(names.container(target.uid), command)

        return probe_by_transport(self._transport, target, check)

    def _own_check(self, uid: str) -> ProbeResult:
        """What the engine says of the image's own health check."""
        inspected = self._inspect(names.container(uid))
        if inspected is None:
            return ProbeResult(HealthState.FAILING, "the container is gone")
        state = observe.container_health(inspected)
        if state is HealthState.NONE:
            return ProbeResult(
                HealthState.FAILING, "the image has no health check, and the manifest asks for one"
            )
        health = inspected["State"]["Health"]
        last = (health.get("Log") or [{}])[-1]
        output = " ".join(str(last.get("Output", "")).split())
        return ProbeResult(state, str(health["Status"]) + (f": {output}" if output else ""))

    def logs(self, uid: str, lines: int) -> str:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            data: bytes = self._api().logs(names.container(uid), tail=lines)
        except (DockerException, RequestException, DriverError):
            return ""
        return data[-LOG_MAX_B:].decode("utf-8", "replace")

    def follow(self, uid: str, lines: int, hear: Hear) -> None:
        """The last lines of the container's output, then what comes; returns when the container has ended."""
        from docker.errors import DockerException, NotFound
        from requests.exceptions import RequestException

        try:
            stream = self._api().logs(names.container(uid), stream=True, follow=True, tail=lines)
        except NotFound as e:
            raise self._absent(uid) from e
        except (DockerException, RequestException) as e:
            raise DriverError(f"host/{self._host}: {said(e)}") from e
        try:
            for data in stream:
                hear(data, False)
        except (DockerException, RequestException, OSError) as e:
            raise DriverError(f"host/{self._host}: {said(e)}") from e
        finally:
            stream.close()

    def _absent(self, uid: str) -> DriverError:
        return DriverError(
            f"there is no container {names.container(uid)} on host {self._host}", code="docker.absent"
        )

    def staged(self, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
        """Those of `pins` whose image is on the engine: an engine does not know who brought an image."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            return images.staged(self._api(), pins)
        except (DockerException, RequestException) as e:
            raise DriverError(f"host/{self._host}: {said(e)}") from e

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._transport.close()

    def _api(self) -> Any:
        if self._client is None:
            self._client = self._connect()
        return self._client

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
            return ProbeResult(HealthState.FAILING, said(e))
        words = " ".join(output.decode("utf-8", "replace").split())[:120]
        return ProbeResult(
            HealthState.PASSING if status == 0 else HealthState.FAILING,
            f"exit status {status}" + (f": {words}" if words else ""),
        )


def said(error: BaseException) -> str:
    """The engine's own words, where it has any."""
    explanation = getattr(error, "explanation", None)
    return str(explanation or error)

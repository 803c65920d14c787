"""Docker beside its floor: the driver's create and start of 50 containers, and the bare SDK's doing the same.

`python -m tests.bench.docker`. The floor is what any tool has to do: see whether the container is there, create
it, start it, and see that it runs; from the same number of threads.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from executors.docker.config import create_request
from executors.docker.driver import DockerDriver
from executors.docker.engine import client
from executors.driver import Operation
from executors.outcome import OutcomeState
from executors.transports.local import LocalTransport
from manifests.digest import sha256
from manifests.schema.container import Container
from manifests.schema.host import Docker, Host
from planner.plan import StepKind
from planner.spec import ArtifactPin, NodeSpec, fields
from tests.bench.table import Table
from tests.lab import docker_engine as lab
from tests.lab.images import node_image

CONTAINERS = 50
THREADS = 10
RATIO_MAX = 1.2
RUNS = 3


def main() -> int:
    table = Table()
    measure(table)
    print(table)
    return int(table.broken)


def measure(table: Table) -> None:
    """Adds the rows, or a note that says why there are none."""
    if reason := lab.missing():
        table.note(f"Docker: not measured: {reason}")
        return
    with lab.DockerEngine() as engine, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "node.tar"
        path.write_bytes(node_image("1.0.0").archive("node:1.0.0"))
        pin = ArtifactPin(source=str(path), digest=sha256(path.read_bytes()), name=path.name)
        host = Host(api_version="fleetctl/v1", kind="Host", name="e", docker=Docker(url=engine.url))
        driver = DockerDriver("e", lambda: client(host, LocalTransport()), LocalTransport())
        driver.stage(pin, str(path))
        api = driver._api()
        calls = _count(api)
        image_id = driver._pinned().find(pin)
        assert image_id is not None
        taken: dict[str, list[tuple[float, float]]] = {"fleetctl": [], "bare": []}
        works: dict[str, Callable[[Operation], None]] = {
            "fleetctl": lambda o: _ours(driver, o),
            "bare": lambda o: _bare(api, image_id, o),
        }
        for turn in range(RUNS):
            for name, work in works.items():
                operations = [_operation(pin, f"{name}{turn}x{n:03d}") for n in range(CONTAINERS)]
                before, begun = calls[0], time.perf_counter()
                with ThreadPoolExecutor(THREADS) as pool:
                    list(pool.map(work, operations))
                taken[name].append((time.perf_counter() - begun, (calls[0] - before) / CONTAINERS))
                for container in api.containers(all=True, filters={"label": "fleetctl.uid"}):
                    api.remove_container(container["Id"], force=True)
        driver.close()
    ours_s, bare_s = (statistics.median(t for t, _ in taken[n]) for n in ("fleetctl", "bare"))
    ours_calls, bare_calls = (statistics.median(c for _, c in taken[n]) for n in ("fleetctl", "bare"))
    for what, ours, bare, unit in (
        ("time to create and start", ours_s, bare_s, "s"),
        ("API calls per container", ours_calls, bare_calls, "calls"),
    ):
        table.add(
            f"Docker, {CONTAINERS} containers, {what}",
            f"{ours:.2f} {unit}",
            f"bare SDK {bare:.2f} {unit}; {ours / bare:.2f} x",
            f"at most {RATIO_MAX} x",
            ours <= RATIO_MAX * bare,
        )


def _count(api: Any) -> list[int]:
    """Counts the client's requests in the list's only place."""
    calls, send = [0], api.send

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return send(*args, **kwargs)

    api.send = counted
    return calls


def _operation(pin: ArtifactPin, uid: str) -> Operation:
    spec = NodeSpec(
        address="127.0.0.1",
        artifact=pin,
        command=("/bin/node",),
        container=Container(tmpfs=("/tmp",)),
        host="e",
        product="node",
        substrate="docker",
        version="1.0.0",
    )
    return Operation(
        operation_id=f"op-{uid}",
        attempt=1,
        fleet="f",
        lineage="l",
        epoch=1,
        node=uid,
        uid=uid,
        generation=1,
        effect=StepKind.CREATE,
        spec=spec,
        fields=fields(spec, {}),
    )


def _ours(driver: DockerDriver, create: Operation) -> None:
    from dataclasses import replace

    for operation in (
        create,
        replace(create, effect=StepKind.START, operation_id=f"{create.operation_id}-start"),
    ):
        outcome = driver.perform(operation, {})
        assert outcome.state is OutcomeState.SUCCEEDED, outcome


def _bare(api: Any, image_id: str, create: Operation) -> None:
    from docker.errors import NotFound

    name = f"fleetctl-{create.uid}"
    try:
        api.inspect_container(name)
    except NotFound:
        api.create_container_from_config(create_request(create, image_id, {}), name)
    api.start(name)
    assert api.inspect_container(name)["State"]["Running"]


if __name__ == "__main__":
    sys.exit(main())

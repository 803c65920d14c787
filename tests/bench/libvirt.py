"""A libvirt beside its raw binding, and one look at many domains: `python -m tests.bench.libvirt [--runs N]`.

Ten domains on a small disk image, emulated, are made, started, turned off and removed: through the driver, and by
the same calls of the binding without any of its questions. Both are this process, one after the other, so that
neither pays for a start of Python. Guests do not boot anything, hence there is nothing to wait for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, cast

from executors import registry
from executors.driver import Operation
from executors.libvirt import definition, names
from executors.libvirt.driver import LibvirtDriver
from manifests.digest import sha256
from manifests.schema.domain import DataVolume, Domain
from manifests.schema.fleet import Drain
from manifests.schema.host import Host, Libvirt
from planner.plan import StepKind
from planner.spec import ArtifactPin, NodeSpec, fields
from tests.bench.table import Table
from tests.lab import guest_image, libvirt_lab
from tests.lab.guest_image import make_disk_image
from tests.lab.libvirt_lab import LibvirtLab

NODES = 10
OBSERVED = 200
RATIO_MAX = 1.2
STEPS = (StepKind.CREATE, StepKind.START, StepKind.STOP, StepKind.DESTROY)
# Calls that only read what the binding holds already.
LOCAL = (
    "virDomainGetUUIDString",
    "virDomainGetName",
    "virDomainGetID",
    "virStorageVolGetName",
    "virConnectIsAlive",
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.libvirt", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each contestant")
    chosen = parser.parse_args(arguments)
    reason = libvirt_lab.missing() or guest_image.missing()
    if reason:
        print(f"libvirt: not measured: {reason}")
        return 0
    table = Table()
    with LibvirtLab() as lab, tempfile.TemporaryDirectory() as folder:
        _beside_the_binding(table, lab, Path(folder), chosen.runs)
    _observation(table, chosen.runs)
    print(table)
    return int(table.broken)


def _driver(uri: str) -> LibvirtDriver:
    host = Host(api_version="fleetctl/v1", kind="Host", name="vm", libvirt=Libvirt(uri=uri))
    return cast("LibvirtDriver", registry.driver(host, "qemu"))


def _spec(artifact: ArtifactPin) -> NodeSpec:
    return NodeSpec(
        address="198.18.0.9",
        artifact=artifact,
        command=("x",),
        domain=Domain(
            memory="32MiB",
            accelerator="qemu",
            networks=(),
            volumes=(DataVolume(name="d", size="8MiB"),),
        ),
        # There is no guest that would hear the power button.
        drain=Drain(timeout="0ms"),
        host="vm",
        product="node",
        substrate="qemu",
        version="1.0.0",
    )


def _operation(spec: NodeSpec, number: int, effect: StepKind) -> Operation:
    return Operation(
        operation_id=f"{effect.value}-{number}",
        attempt=1,
        fleet="bench",
        lineage="bench",
        epoch=1,
        node=f"node-{number}",
        uid=f"bench{number:011d}",
        generation=1,
        effect=effect,
        spec=spec,
        fields=fields(spec, {}),
        retain_data=False,
    )


def _beside_the_binding(table: Table, lab: LibvirtLab, folder: Path, runs: int) -> None:
    image = make_disk_image(folder / "image.qcow2", "1.0.0")
    spec = _spec(ArtifactPin(digest=sha256(image.read_bytes()), name="image", source=str(image)))
    driver = _driver(f"qemu+unix:///system?socket={lab.socket}")
    driver.stage(spec.artifact, str(image))
    ours: list[float] = []
    bare: list[float] = []
    with _counted() as calls:
        for _ in range(runs):
            ours.append(_timed(lambda: _ours(driver, spec)))
    driver_calls = sum(calls.values()) / runs / NODES
    with _counted() as calls:
        for _ in range(runs):
            bare.append(_timed(lambda: _bare(driver, spec)))
    binding_calls = sum(calls.values()) / runs / NODES
    driver.close()
    ratio = median(ours) / median(bare)
    table.add(
        f"{NODES} domains made, started, ended, removed",
        f"{median(ours):.2f} s",
        f"raw binding: {median(bare):.2f} s; {ratio:.2f} x",
        f"at most {RATIO_MAX} x",
        ratio <= RATIO_MAX,
    )
    table.add("calls of libvirt for each of them", f"{driver_calls:.0f}", f"raw binding: {binding_calls:.0f}")


def _ours(driver: LibvirtDriver, spec: NodeSpec) -> None:
    for effect in STEPS:
        for number in range(NODES):
            outcome = driver.perform(_operation(spec, number, effect), {})
            assert outcome.state == "succeeded", outcome


def _bare(driver: LibvirtDriver, spec: NodeSpec) -> None:
    """What has to be called for the same end, by somebody who asks nothing and believes everything."""
    connection = driver._connection.get()
    pool = connection.storagePoolLookupByName("fleetctl")
    seed = b"x" * 80_000
    domains = []
    for number in range(NODES):
        operation = _operation(spec, number, StepKind.CREATE)
        place = definition.Place("/var/lib/libvirt/fleetctl")
        backing = f"/var/lib/libvirt/fleetctl/{names.image(spec.artifact.digest)}"
        behind = f"<backingStore><path>{backing}</path><format type='qcow2'/></backingStore>"
        overlay = names.overlay(operation.uid, spec.artifact.digest)
        volumes = [
            pool.createXML(_volume(overlay, "qcow2", "", behind)),
            pool.createXML(
                _volume(names.data(operation.uid, "d"), "qcow2", f"<capacity>{8 * 2**20}</capacity>")
            ),
            pool.createXML(_volume(names.seed(operation.uid), "raw", f"<capacity>{len(seed)}</capacity>")),
        ]
        stream = connection.newStream(0)
        volumes[-1].upload(stream, 0, len(seed), 0)
        stream.send(seed)
        stream.finish()
        domain = connection.defineXML(definition.define(operation, place))
        domain.setAutostart(1)
        domains.append((domain, volumes))
    for domain, _ in domains:
        domain.create()
    for domain, _ in domains:
        domain.destroy()
    for domain, volumes in domains:
        domain.undefine()
        for volume in volumes:
            volume.delete(0)


def _volume(name: str, format_: str, capacity: str, behind: str = "") -> str:
    return (
        f"<volume><name>{name}</name>{capacity}<target><format type='{format_}'/></target>{behind}</volume>"
    )


def _observation(table: Table, runs: int) -> None:
    driver = _driver("test:///default")
    connection = driver._connection.get()
    spec = _spec(ArtifactPin(digest=sha256(b"x"), name="image", source="/image"))
    for number in range(OBSERVED):
        operation = _operation(spec, number, StepKind.CREATE)
        connection.defineXML(definition.define(operation, definition.Place("/pool", "i686", "test"))).create()
    took = []
    with _counted() as calls:
        for _ in range(runs):
            took.append(_timed(lambda: driver.observe(frozenset())))
    seen = driver.observe(frozenset())
    assert len(seen.nodes) == OBSERVED, seen.error
    driver.close()
    each = sum(calls.values()) / runs / OBSERVED
    table.add(
        f"one look at {OBSERVED} running test:/// domains", f"{median(took):.2f} s", f"{each:.1f} calls each"
    )


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Counts the calls that the binding makes, by name."""
    import libvirtmod  # type: ignore[import-not-found,unused-ignore]  # the binding's own half in C

    calls: Counter[str] = Counter()
    before: dict[str, Any] = {}
    for name in dir(libvirtmod):
        if name.startswith(("virDomain", "virStorage", "virConnect", "virStream")) and name not in LOCAL:
            before[name] = getattr(libvirtmod, name)
            setattr(libvirtmod, name, _counting(calls, name, before[name]))
    try:
        yield calls
    finally:
        for name, function in before.items():
            setattr(libvirtmod, name, function)


def _counting(calls: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        calls[name] += 1
        return function(*args)

    return call


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

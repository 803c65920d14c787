"""A libvirt beside its raw binding, and one look at many domains: `python -m tests.bench.libvirt [--runs N]`.

Ten domains on a small disk image, emulated, are made, started, turned off and removed, each way in this process and
step by step in turn. Guests do not boot anything, hence there is nothing to wait for but QEMU itself:
its start and its end are libvirt's business, and are also measured apart.

- The driver.
- The same job by the raw binding: it believes no more than the driver does. Nobody's domain is in the way; the pool is
  looked at anew; the image was not written to since it was verified, at the definition and right before the start; the
  definition and the data volume's size are read back; before each effect it is read whose the domain is, and the
  effect is noted there; after it, whether it came about.
- The binding alone, by somebody who asks nothing and believes everything.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol, cast
from xml.etree import ElementTree as ET

from executors import registry
from executors.driver import Operation
from executors.libvirt import definition, metadata, names, seed
from executors.libvirt.connection import library
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
POOL_PATH = "/var/lib/libvirt/fleetctl"
DATA_B = 8 * 2**20
# Their time is QEMU's.
OF_QEMU = ("virDomainCreate", "virDomainCreateWithFlags", "virDomainDestroy", "virDomainDestroyFlags")
# Calls that only read, or give back, what the binding holds already.
LOCAL = (
    "virStreamNew",
    "virDomainGetUUIDString",
    "virDomainGetName",
    "virDomainGetID",
    "virStorageVolGetName",
    "virConnectIsAlive",
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.libvirt", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each contestant")
    parser.add_argument("--calls", action="store_true", help="print the calls for each domain by name")
    chosen = parser.parse_args(arguments)
    reason = libvirt_lab.missing() or guest_image.missing()
    if reason:
        print(f"libvirt: not measured: {reason}")
        return 0
    table = Table()
    with LibvirtLab() as lab, tempfile.TemporaryDirectory() as folder:
        _beside_the_binding(table, lab, Path(folder), chosen.runs, by_name=chosen.calls)
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
            volumes=(DataVolume(name="d", size=f"{DATA_B}B"),),
        ),
        # There is no guest that would hear the power button.
        drain=Drain(timeout="0ms"),
        host="vm",
        product="node",
        substrate="qemu",
        version="1.0.0",
    )


def _operation(spec: NodeSpec, whose: str, number: int, effect: StepKind) -> Operation:
    return Operation(
        operation_id=f"{effect.value}-{whose}-{number}",
        attempt=1,
        fleet="bench",
        lineage="bench",
        epoch=1,
        node=f"node-{number}",
        uid=f"{whose.replace(' ', '')}{number:010d}",
        generation=1,
        effect=effect,
        spec=spec,
        fields=fields(spec, {}),
        retain_data=False,
    )


def _beside_the_binding(table: Table, lab: LibvirtLab, folder: Path, runs: int, *, by_name: bool) -> None:
    image = make_disk_image(folder / "image.qcow2", "1.0.0")
    spec = _spec(ArtifactPin(digest=sha256(image.read_bytes()), name="image", source=str(image)))
    driver = _driver(f"qemu+unix:///system?socket={lab.socket}")
    driver.stage(spec.artifact, str(image))
    contestants = {
        "driver": ByDriver(driver, spec),
        "same job": SameJob(driver, spec),
        "alone": Alone(driver, spec),
    }
    took: dict[str, list[Taken]] = {name: [] for name in contestants}
    for _ in range(runs):
        for name, taken in _side_by_side(contestants).items():
            took[name].append(taken)
    driver.close()
    found = {name: _median(each) for name, each in took.items()}
    ours, same, alone = (found[name] for name in contestants)
    _add_time(
        table, f"{NODES} domains made, started, ended, removed", [t.whole_s for t in (ours, same, alone)]
    )
    _add_time(table, "of it without QEMU's own start and end", [t.own_s for t in (ours, same, alone)])
    ratio = ours.calls / same.calls
    table.add(
        "calls of libvirt for each of them",
        f"{ours.calls:.1f}",
        f"the same job raw: {same.calls:.1f}, {ratio:.2f} x; binding alone: {alone.calls:.1f}",
        f"at most {RATIO_MAX} x",
        ratio <= RATIO_MAX,
    )
    if by_name:
        for name in sorted({*ours.by_name, *same.by_name}):
            print(f"{name:45} {ours.by_name[name] / NODES:6.1f} {same.by_name[name] / NODES:6.1f}")


def _add_time(table: Table, what: str, seconds: list[float]) -> None:
    ours_s, same_s, alone_s = seconds
    table.add(
        what,
        f"{ours_s:.2f} s",
        f"the same job raw: {same_s:.2f} s, {ours_s / same_s:.2f} x; binding alone: {alone_s:.2f} s",
        f"at most {RATIO_MAX} x",
        ours_s / same_s <= RATIO_MAX,
    )


@dataclass(frozen=True)
class Taken:
    """One run: its time, the part of it outside of QEMU's start and end, and its calls by name, for each node too."""

    whole_s: float
    own_s: float
    by_name: Counter[str]

    @property
    def calls(self) -> float:
        return sum(self.by_name.values()) / NODES


def _side_by_side(contestants: dict[str, Contestant]) -> dict[str, Taken]:
    """Each step of each node by all of them, one after the other and each first in turn: what else the machine does
    meanwhile hits them alike.
    """
    whole_s: dict[str, float] = defaultdict(float)
    qemu_s: dict[str, float] = defaultdict(float)
    calls: dict[str, Counter[str]] = defaultdict(Counter)
    names_ = list(contestants)
    for effect in STEPS:
        for number in range(NODES):
            first = number % len(names_)
            for name in (*names_[first:], *names_[:first]):
                with _counted() as (counted, seconds):
                    whole_s[name] += _timed(partial(contestants[name].do, effect, number))
                qemu_s[name] += sum(seconds[call] for call in OF_QEMU)
                calls[name] += counted
    return {name: Taken(whole_s[name], whole_s[name] - qemu_s[name], calls[name]) for name in names_}


def _median(taken: list[Taken]) -> Taken:
    """Each figure by itself; calls are those of the last run, which has nothing left to learn."""
    return Taken(median(t.whole_s for t in taken), median(t.own_s for t in taken), taken[-1].by_name)


class Contestant(Protocol):
    """Does one step of one node of its own."""

    def do(self, effect: StepKind, number: int) -> None: ...


class ByDriver:
    """Asks the driver."""

    def __init__(self, driver: LibvirtDriver, spec: NodeSpec) -> None:
        self.driver, self.spec = driver, spec

    def do(self, effect: StepKind, number: int) -> None:
        outcome = self.driver.perform(_operation(self.spec, "driver", number, effect), {})
        assert outcome.state == "succeeded", outcome


class SameJob:
    """What the driver guarantees, written down by hand over the binding: see the module's text."""

    def __init__(self, driver: LibvirtDriver, spec: NodeSpec) -> None:
        self.connection = driver._connection.get()
        self.spec = spec
        self.pool = self.connection.storagePoolLookupByName("fleetctl")
        self.image = self.pool.storageVolLookupByName(names.image(spec.artifact.digest))
        mark = self.pool.storageVolLookupByName(names.image(spec.artifact.digest) + names.VERIFIED)
        self.marked_s = _written_s(mark)

        self.domains: dict[int, Any] = {}

    def do(self, effect: StepKind, number: int) -> None:
        operation = _operation(self.spec, "same", number, effect)
        match effect:
            case StepKind.CREATE:
                self.domains[number] = self.create(operation)
            case StepKind.START:
                self.start(operation, self.domains[number])
            case StepKind.STOP:
                self.stop(operation, self.domains[number])
            case _:
                self.destroy(operation, self.domains.pop(number))

    def create(self, operation: Operation) -> Any:
        uid = operation.uid
        for look, name in (
            (self.connection.lookupByUUIDString, names.domain_uuid(uid)),
            (self.connection.lookupByName, names.domain(uid)),
        ):
            assert _missing(look, name), "somebody is in the way"
        assert _written_s(self.image) <= self.marked_s
        self.pool.refresh(0)
        assert not [v for v in self.pool.listAllVolumes() if v.name().startswith(uid)]
        data = _volumes(self.connection, self.pool, operation, self.spec)[1]
        assert data.info()[1] == DATA_B
        xml = definition.define(operation, definition.Place(POOL_PATH))
        domain = self.connection.defineXMLFlags(xml, libvirt().VIR_DOMAIN_DEFINE_VALIDATE)
        domain.setAutostart(1)
        assert self.ours(domain.XMLDesc(libvirt().VIR_DOMAIN_XML_INACTIVE)).uid == uid
        return domain

    def start(self, operation: Operation, domain: Any) -> None:
        assert _written_s(self.image) <= self.marked_s
        self.note(operation, domain, libvirt().VIR_DOMAIN_AFFECT_CONFIG)
        domain.createWithFlags(0)
        assert domain.state(0)[0] == libvirt().VIR_DOMAIN_RUNNING

    def stop(self, operation: Operation, domain: Any) -> None:
        both = libvirt().VIR_DOMAIN_AFFECT_CONFIG | libvirt().VIR_DOMAIN_AFFECT_LIVE
        self.note(operation, domain, both)
        domain.destroyFlags(0)
        assert domain.state(0)[0] == libvirt().VIR_DOMAIN_SHUTOFF

    def destroy(self, operation: Operation, domain: Any) -> None:
        assert domain.state(0)[0] == libvirt().VIR_DOMAIN_SHUTOFF
        assert self.ours(domain.XMLDesc(0)).epoch <= operation.epoch
        self.pool.refresh(0)
        for volume in self.pool.listAllVolumes():
            if volume.name().startswith(operation.uid):
                volume.delete(0)
        domain.undefineFlags(0)
        assert _missing(self.connection.lookupByUUIDString, names.domain_uuid(operation.uid))

    def note(self, operation: Operation, domain: Any, where: int) -> None:
        """Reads whose it is and whether it runs, and writes down what is about to be done."""
        assert domain.state(0)[0] >= 0
        ours = self.ours(domain.XMLDesc(0))
        assert ours.epoch <= operation.epoch
        text = metadata.text(metadata.of_operation(operation, ours))
        kind = libvirt().VIR_DOMAIN_METADATA_ELEMENT
        domain.setMetadata(kind, text, names.KEY, names.XML_NAMESPACE, where)

    def ours(self, xml: str) -> metadata.Metadata:
        found = metadata.find(ET.fromstring(xml))
        assert found is not None
        return metadata.read(found)


class Alone:
    """The calls that make the effects, and no other."""

    def __init__(self, driver: LibvirtDriver, spec: NodeSpec) -> None:
        self.connection = driver._connection.get()
        self.spec = spec
        self.pool = self.connection.storagePoolLookupByName("fleetctl")
        self.made: dict[int, tuple[Any, list[Any]]] = {}

    def do(self, effect: StepKind, number: int) -> None:
        if effect is StepKind.CREATE:
            operation = _operation(self.spec, "alone", number, effect)
            volumes = _volumes(self.connection, self.pool, operation, self.spec)
            domain = self.connection.defineXML(definition.define(operation, definition.Place(POOL_PATH)))
            domain.setAutostart(1)
            self.made[number] = domain, volumes
            return
        domain, volumes = self.made[number]
        if effect is StepKind.START:
            domain.create()
        elif effect is StepKind.STOP:
            domain.destroy()
        else:
            domain.undefine()
            for volume in volumes:
                volume.delete(0)


def _volumes(connection: Any, pool: Any, operation: Operation, spec: NodeSpec) -> list[Any]:
    """The overlay, the data, and the seed with its bytes."""
    backing = f"{POOL_PATH}/{names.image(spec.artifact.digest)}"
    behind = f"<backingStore><path>{backing}</path><format type='qcow2'/></backingStore>"
    content = seed.iso(seed.files(operation, {}))
    volumes = [
        pool.createXML(_volume(names.overlay(operation.uid, spec.artifact.digest), "qcow2", "", behind)),
        pool.createXML(_volume(names.data(operation.uid, "d"), "qcow2", f"<capacity>{DATA_B}</capacity>")),
        pool.createXML(_volume(names.seed(operation.uid), "raw", f"<capacity>{len(content)}</capacity>")),
    ]
    stream = connection.newStream(0)
    volumes[-1].upload(stream, 0, len(content), 0)
    while content:
        content = content[stream.send(content) :]
    stream.finish()
    return volumes


def libvirt() -> Any:
    """The binding."""
    return library()


def _missing(look: Callable[[str], Any], name: str) -> bool:
    try:
        look(name)
    except libvirt().libvirtError:
        return True
    return False


def _written_s(volume: Any) -> float:
    return float(ET.fromstring(volume.XMLDesc(0)).findtext("target/timestamps/mtime") or 0)


def _volume(name: str, format_: str, capacity: str, behind: str = "") -> str:
    return (
        f"<volume><name>{name}</name>{capacity}<target><format type='{format_}'/></target>{behind}</volume>"
    )


def _observation(table: Table, runs: int) -> None:
    driver = _driver("test:///default")
    connection = driver._connection.get()
    spec = _spec(ArtifactPin(digest=sha256(b"x"), name="image", source="/image"))
    for number in range(OBSERVED):
        operation = _operation(spec, "observed", number, StepKind.CREATE)
        connection.defineXML(definition.define(operation, definition.Place("/pool", "i686", "test"))).create()
    took = []
    with _counted() as (calls, _):
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
def _counted() -> Iterator[tuple[Counter[str], dict[str, float]]]:
    """Counts the calls that the binding makes, by name, and their time."""
    import libvirtmod  # type: ignore[import-not-found,unused-ignore]  # the binding's own half in C

    calls: Counter[str] = Counter()
    seconds: dict[str, float] = defaultdict(float)
    before: dict[str, Any] = {}
    for name in dir(libvirtmod):
        counts = name.startswith(("virDomain", "virStorage", "virConnect", "virStream"))
        if counts and name not in LOCAL and not name.endswith(("Free", "Ref")):
            before[name] = getattr(libvirtmod, name)
            setattr(libvirtmod, name, _counting(calls, seconds, name, before[name]))
    try:
        yield calls, seconds
    finally:
        for name, function in before.items():
            setattr(libvirtmod, name, function)


def _counting(
    calls: Counter[str], seconds: dict[str, float], name: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        calls[name] += 1
        began = time.perf_counter()
        try:
            return function(*args)
        finally:
            seconds[name] += time.perf_counter() - began

    return call


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Our element in a domain's metadata: what the domain says of itself. Pure.

It travels with the definition, and can be written anew on a running domain without touching anything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from executors.driver import Operation
from executors.libvirt import names
from manifests.schema.domain import Domain
from planner.plan import StepKind

_TAG = f"{{{names.XML_NAMESPACE}}}node"


@dataclass(frozen=True, slots=True)
class Metadata:
    """Identity, fencing, release, and the managed fields as they were sent.

    `effect` is the last one's kind; `by` how the node's address is found;
    `started` the operation that started it last.
    """

    uid: str
    fleet: str
    node: str
    lineage: str
    epoch: int
    generation: int
    operation: str
    attempt: int
    effect: str
    version: str
    digest: str
    address: str
    by: str
    started: str = ""
    port: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


def of_operation(operation: Operation, before: Metadata | None = None) -> Metadata:
    """What the domain says after this operation.

    An effect that places nothing keeps the release and fields that `before` has.
    """
    spec = operation.spec
    placed = before if before is not None and operation.effect is not StepKind.CREATE else None
    return Metadata(
        uid=operation.uid,
        fleet=operation.fleet,
        node=operation.node,
        lineage=operation.lineage,
        epoch=operation.epoch,
        generation=operation.generation if placed is None else placed.generation,
        operation=operation.operation_id,
        attempt=operation.attempt,
        effect=operation.effect.value,
        version=spec.version if placed is None else placed.version,
        digest=spec.artifact.digest if placed is None else placed.digest,
        address=spec.address if placed is None else placed.address,
        by=(spec.domain or Domain()).address.by if placed is None else placed.by,
        started=_started(operation, placed),
        port=spec.port if placed is None else placed.port,
        fields=dict(operation.fields) if placed is None else placed.fields,
    )


def _started(operation: Operation, placed: Metadata | None) -> str:
    if operation.effect is StepKind.START:
        return operation.operation_id
    return "" if placed is None else placed.started


def element(metadata: Metadata) -> ET.Element:
    """The element as it stands in the definition."""
    attributes = {
        "uid": metadata.uid,
        "fleet": metadata.fleet,
        "node": metadata.node,
        "lineage": metadata.lineage,
        "epoch": str(metadata.epoch),
        "generation": str(metadata.generation),
        "operation": metadata.operation,
        "attempt": str(metadata.attempt),
        "effect": metadata.effect,
        "version": metadata.version,
        "digest": metadata.digest,
        "address": metadata.address,
        "by": metadata.by,
        "started": metadata.started,
    }
    if metadata.port is not None:
        attributes["port"] = str(metadata.port)
    out = ET.Element(_TAG, attributes)
    # ASCII, in which JSON escapes what XML cannot hold (arguments are joined by NUL).
    out.text = json.dumps(dict(metadata.fields), sort_keys=True, separators=(",", ":"))
    return out


def text(metadata: Metadata) -> str:
    """The element for `virDomainSetMetadata`, which adds the namespace itself."""
    plain = element(metadata)
    plain.tag = "node"
    return ET.tostring(plain, encoding="unicode")


def find(domain: ET.Element) -> ET.Element | None:
    """Our element in a domain's definition; None: the domain is not ours."""
    return domain.find(f"metadata/{_TAG}")


def put(domain: ET.Element, ours: Metadata) -> None:
    """Our element in place of the one that is there."""
    around = domain.find("metadata")
    if around is None:
        around = ET.SubElement(domain, "metadata")
    for old in around.findall(_TAG):
        around.remove(old)
    around.append(element(ours))


def read(found: ET.Element) -> Metadata:
    """The element's content; raises ValueError when it is damaged."""
    try:
        port = found.get("port")
        return Metadata(
            uid=found.attrib["uid"],
            fleet=found.attrib["fleet"],
            node=found.attrib["node"],
            lineage=found.attrib["lineage"],
            epoch=int(found.attrib["epoch"]),
            generation=int(found.attrib["generation"]),
            operation=found.attrib["operation"],
            attempt=int(found.attrib["attempt"]),
            effect=found.attrib["effect"],
            version=found.attrib["version"],
            digest=found.attrib["digest"],
            address=found.attrib["address"],
            by=found.attrib["by"],
            started=found.attrib["started"],
            port=None if port is None else int(port),
            fields={str(k): str(v) for k, v in json.loads(found.text or "{}").items()},
        )
    except (KeyError, AttributeError) as e:
        raise ValueError(f"our metadata lacks {e}") from e

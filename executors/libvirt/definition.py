"""NodeSpec -> the XML of a domain. Pure but for the template's own file, which ships with this module."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from executors.driver import DriverError, Operation
from executors.libvirt import metadata, names
from manifests.schema.domain import Domain
from planner.spec import ArtifactPin, NodeSpec

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE = "domain.xml.j2"
DEVICE_PREFIX = "vd"
# virtio-blk shows the guest no more than this of a serial number.
SERIAL_MAX = 20
# One for each fleet that is under way at once is plenty.
TEMPLATES_MAX = 16

ET.register_namespace(names.KEY, names.XML_NAMESPACE)


class TemplateFailed(DriverError):
    """A template does not give the XML of a domain."""

    code = "libvirt.template"


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk of a domain: a file of the pool. `serial` is how the guest tells it."""

    path: str
    format: str
    target: str
    serial: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What a definition needs to know of its place: the pool's folder, the host's architecture, and the kind
    of domain that stands for the accelerator (the test hypervisor knows only its own).
    """

    pool_path: str
    arch: str = "x86_64"
    kind: str | None = None


def domain_of(spec: NodeSpec) -> Domain:
    """The domain's settings, defaults where the manifest has none."""
    return spec.domain or Domain()


def parts(spec: NodeSpec) -> dict[str, str]:
    """What the node boots: the digest by part (disk, kernel, initrd)."""
    boot = domain_of(spec).boot
    pinned = {"disk": boot.disk, "kernel": boot.kernel, "initrd": boot.initrd}
    found = {part: pin.digest for part, pin in pinned.items() if pin is not None}
    return {**found, boot.artifact: spec.artifact.digest}


def disks(uid: str, spec: NodeSpec, pool_path: str) -> tuple[Disk, ...]:
    """The node's disks in the order in which the guest sees them: its own, its volumes, its seed."""
    domain = domain_of(spec)
    wanted: list[tuple[str, str, str, bool]] = []
    disk = parts(spec).get("disk")
    if disk is not None:
        wanted.append((names.overlay(uid, disk), "qcow2", "root", False))
    wanted += [(names.data(uid, v.name), "qcow2", v.name[:SERIAL_MAX], False) for v in domain.volumes]
    if domain.seed:
        wanted.append((names.seed(uid), "raw", "seed", True))
    return tuple(
        Disk(f"{pool_path}/{name}", format_, f"{DEVICE_PREFIX}{chr(ord('a') + i)}", serial, read_only)
        for i, (name, format_, serial, read_only) in enumerate(wanted)
    )


def context(operation: Operation, place: Place) -> dict[str, Any]:
    """Everything a template sees."""
    spec, uid = operation.spec, operation.uid
    domain = domain_of(spec)
    found = parts(spec)
    path = {part: f"{place.pool_path}/{names.image(digest)}" for part, digest in found.items()}
    return {
        "accelerator": place.kind or domain.accelerator,
        "arch": spec.artifact.arch if spec.artifact.arch != "any" else place.arch,
        "console": f"{place.pool_path}/{names.console(uid)}" if domain.console_log else None,
        "disks": disks(uid, spec, place.pool_path),
        "domain": domain,
        "fleet": {"name": operation.fleet},
        "initrd": path.get("initrd"),
        "interfaces": [
            {"network": n.network, "bridge": n.bridge, "model": n.model, "mac": names.mac(uid, i)}
            for i, n in enumerate(domain.networks)
        ],
        "kernel": path.get("kernel"),
        "memory_kib": domain.memory // 1024,
        "node": {"name": operation.node, "uid": uid, "address": spec.address, "port": spec.port},
        "release": {"product": spec.product, "version": spec.version},
        "title": f"{operation.fleet}/{operation.node}",
    }


def define(operation: Operation, place: Place, own_template: str | None = None) -> str:
    """The XML to define: the template rendered, with our uuid, name and metadata in it.

    Arguments: `own_template` is the text of the operator's template. Raises TemplateFailed.
    """
    root = _parsed(_rendered(own_template, context(operation, place)))
    for tag in ("uuid", "name", "metadata"):
        for old in root.findall(tag):
            root.remove(old)
    ours = ET.Element("metadata")
    ours.append(metadata.element(metadata.of_operation(operation)))
    for tag, text in (("uuid", names.domain_uuid(operation.uid)), ("name", names.domain(operation.uid))):
        child = ET.Element(tag)
        child.text = text
        root.insert(0, child)
    root.insert(2, ours)
    return ET.tostring(root, encoding="unicode")


def template_pin(spec: NodeSpec) -> ArtifactPin | None:
    """The operator's own template among the pins; None: the one that ships here."""
    template = domain_of(spec).template
    if template is None:
        return None
    return next(pin for pin in spec.pins if pin.digest == template.digest)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@lru_cache(maxsize=TEMPLATES_MAX)
def _compiled(text: str) -> Template:
    """Compiling takes longer than rendering, and a fleet has few templates."""
    return _environment().from_string(text)


def _rendered(own_template: str | None, values: dict[str, Any]) -> str:
    from jinja2 import TemplateError

    shipped = own_template is None
    text = own_template
    if text is None:
        text = (resources.files("executors.libvirt") / TEMPLATE).read_text(encoding="utf-8")
    try:
        return _compiled(text).render(values)
    except TemplateError as e:
        line = getattr(e, "lineno", None)
        where = TEMPLATE if shipped else "domain.template"
        raise TemplateFailed(f"{where}{f', line {line}' if line else ''}: {e}") from e


def _parsed(text: str) -> ET.Element:
    try:
        # The operator's own file, rendered from his own manifest; expat bounds what entities may become.
        root = ET.fromstring(text.strip())  # noqa: S314
    except ET.ParseError as e:
        raise TemplateFailed(f"domain.template gives no well-formed XML: {e}") from e
    if root.tag != "domain":
        raise TemplateFailed(f"domain.template gives <{root.tag}>, and a definition is a <domain>")
    return root

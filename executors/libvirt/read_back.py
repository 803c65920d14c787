"""A domain's XML -> its managed fields, in the form of `planner.spec.fields`. Pure.

What libvirt spells out (the newest version behind a machine's name) is compared as it was written. What no
XML shows (the seed's content, the template) stays as recorded while its file is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import basename
from xml.etree import ElementTree as ET

from executors.driver import Operation
from executors.libvirt import names
from manifests.schema.domain import Domain

_KIB = {"b": 1 / 1024, "bytes": 1 / 1024, "k": 1, "KiB": 1, "KB": 1000 / 1024, "M": 1024, "MiB": 1024,
        "G": 2**20, "GiB": 2**20, "T": 2**30, "TiB": 2**30}  # fmt: skip
_MACHINES = {"q35": "pc-q35-", "pc": "pc-i440fx-", "virt": "virt-"}
_AGENT = "org.qemu.guest_agent.0"
_SEEDED = ("env.", "files.")
AT_NEXT_START = " (at its next start)"
GONE = "gone"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands beside the XML: whether it starts with its host, the pool's volumes with their capacity in
    bytes (None: the pool could not be read), and the kind of domain that stands for the accelerator.
    """

    autostart: bool = True
    volumes: Mapping[str, int | None] | None = field(default=None)
    kind: str | None = None


def read_back(
    live: ET.Element, defined: ET.Element | None, recorded: Mapping[str, str], uid: str, around: Surroundings
) -> dict[str, str]:
    """The fields as they are now; where only the definition was changed, as they will be at the next start.

    Arguments: `live` is what runs (or, of a domain that is off, its definition); `defined` the definition of
    one that runs; `recorded` the fields that were sent.
    """
    now = _fields(live, recorded, uid, around)
    if defined is None:
        return now
    later = _fields(defined, recorded, uid, around)
    for name in recorded.keys() | later.keys():
        if now.get(name) == recorded.get(name) and later.get(name) != recorded.get(name):
            now[name] = f"{later.get(name, 'none')}{AT_NEXT_START}"
    return now


def differing(root: ET.Element, operation: Operation, around: Surroundings) -> list[str]:
    """What a definition that was just made does not have as it was declared, each as words."""
    wanted = operation.fields
    made = read_back(root, None, wanted, operation.uid, around)
    return [
        f"{name} is {made.get(name, 'nothing')!r}, declared {wanted.get(name, 'nothing')!r}"
        for name in sorted(made.keys() | wanted.keys())
        if made.get(name) != wanted.get(name)
    ]


def _fields(root: ET.Element, recorded: Mapping[str, str], uid: str, around: Surroundings) -> dict[str, str]:
    out = dict(recorded)
    _hardware(root, recorded, out, around)
    _boot(root, recorded, out, uid, around)
    _interfaces(root, out, uid)
    _volumes(root, recorded, out, uid, around)
    _devices(root, recorded, out, uid, around)
    if "domain.memory" not in recorded:
        # The manifest has no domain section: its defaults are compared only where they were changed.
        for name, value in _defaults().items():
            if out.get(name) == value:
                del out[name]
    return out


def _defaults() -> dict[str, str]:
    domain = Domain()
    return {
        "domain.memory": f"{domain.memory // 2**20}MiB",
        "domain.vcpus": str(domain.vcpus),
        "domain.machine": domain.machine,
        "domain.accelerator": domain.accelerator,
        "domain.autostart": "true",
        "domain.agent": "true",
        "domain.console_log": "true",
        "domain.seed": "true",
        "domain.networks.0": "network default, virtio",
    }


def _hardware(
    root: ET.Element, recorded: Mapping[str, str], out: dict[str, str], around: Surroundings
) -> None:
    memory, current = _kib(root.find("memory")), _kib(root.find("currentMemory"))
    if memory is not None:
        out["domain.memory"] = _mib(memory)
        if current is not None and current != memory:
            out["domain.memory"] += f", {_mib(current)} of it in use"
    vcpu = root.find("vcpu")
    if vcpu is not None and vcpu.text:
        out["domain.vcpus"] = vcpu.text.strip()
        given = vcpu.get("current")
        if given is not None and given != out["domain.vcpus"]:
            out["domain.vcpus"] += f", {given} of them in use"
    kind = root.get("type", "")
    out["domain.accelerator"] = recorded.get("domain.accelerator", kind) if kind == around.kind else kind
    type_ = root.find("os/type")
    machine = type_.get("machine", "") if type_ is not None else ""
    known = recorded.get("domain.machine", Domain().machine)
    spelled = _MACHINES.get(known)
    same = not machine or machine == known or (spelled is not None and machine.startswith(spelled))
    out["domain.machine"] = known if same else machine
    out["domain.autostart"] = _yes(around.autostart)


def _boot(
    root: ET.Element, recorded: Mapping[str, str], out: dict[str, str], uid: str, around: Surroundings
) -> None:
    artifact = recorded.get("domain.boot.artifact", "disk")
    found = {part: _image_in(root.findtext(f"os/{part}"), around) for part in ("kernel", "initrd")}
    system = overlay(root, uid)
    known = recorded.get("artifact.digest" if artifact == "disk" else "domain.boot.disk")
    if system is None:
        found["disk"] = None
    elif around.volumes is not None and system not in around.volumes:
        found["disk"] = GONE
    else:
        found["disk"] = known if known is not None and system == names.overlay(uid, known) else system
    for part, digest in found.items():
        name = "artifact.digest" if part == artifact else f"domain.boot.{part}"
        _set(out, name, digest if part != artifact else digest or GONE)
    _set(out, "domain.boot.kernel_args", (root.findtext("os/cmdline") or "").strip() or None)
    if "domain.boot.disk_size" in recorded and system is not None and around.volumes is not None:
        size = around.volumes.get(system)
        _set(out, "domain.boot.disk_size", None if size is None else str(size))


def overlay(root: ET.Element, uid: str) -> str | None:
    """The volume of the node's own disk."""
    volumes = (basename(source) for source in _sources(root).values())
    return next((volume for volume in volumes if names.is_overlay(uid, volume)), None)


def _strays(root: ET.Element, recorded: Mapping[str, str], uid: str) -> dict[str, str]:
    """Disks that are not the node's, by target; with a template of the operator's own they may be his."""
    if "domain.template" in recorded:
        return {}
    return {
        target: source
        for target, source in _sources(root).items()
        if not basename(source).startswith(names.own(uid))
    }


def _sources(root: ET.Element) -> dict[str, str]:
    """The file or device behind each disk, by its target."""
    out = {}
    for disk in root.findall("devices/disk"):
        target, source = disk.find("target"), disk.find("source")
        if target is not None:
            given = source.attrib if source is not None else {}
            out[target.get("dev", "")] = (
                given.get("file") or given.get("volume") or given.get("dev") or "empty"
            )
    return out


def _image_in(path: str | None, around: Surroundings) -> str | None:
    if not path:
        return None
    name = basename(path.strip())
    digest = names.image_digest(name)
    if digest is not None and around.volumes is not None and name not in around.volumes:
        return GONE
    return digest or path


def _interfaces(root: ET.Element, out: dict[str, str], uid: str) -> None:
    for name in [n for n in out if n.startswith("domain.networks.")]:
        del out[name]
    for i, interface in enumerate(root.findall("devices/interface")):
        source, model, mac = interface.find("source"), interface.find("model"), interface.find("mac")
        place = "nowhere"
        if source is not None:
            # A running interface of a network also says which bridge that has.
            kind = "network" if source.get("network") else "bridge"
            place = f"{kind} {source.get(kind, '')}"
        text = f"{place}, {model.get('type') if model is not None else 'virtio'}"
        address = mac.get("address") if mac is not None else None
        if address is not None and address.lower() != names.mac(uid, i):
            text += f", {address}"
        link = interface.find("link")
        if link is not None and link.get("state") == "down":
            text += ", its link is down"
        out[f"domain.networks.{i}"] = text


def _volumes(
    root: ET.Element, recorded: Mapping[str, str], out: dict[str, str], uid: str, around: Surroundings
) -> None:
    attached = {basename(source) for source in _sources(root).values()}
    for target, source in _strays(root, recorded, uid).items():
        out[f"domain.disks.{target}"] = source
    for name in [n for n in out if n.startswith("domain.volumes.")]:
        volume = names.data(uid, name.removeprefix("domain.volumes."))
        if volume not in attached:
            del out[name]
        elif around.volumes is not None:
            size = around.volumes.get(volume, -1)
            # A size that nobody asked for stays as recorded.
            out[name] = recorded[name] if size is None else GONE if size < 0 else str(size)
    begins = names.data(uid, "").removesuffix(".qcow2")
    for volume in attached:
        name = f"domain.volumes.{volume.removeprefix(begins).removesuffix('.qcow2')}"
        if names.is_data(uid, volume) and name not in out:
            out[name] = "attached by hand"


def _devices(
    root: ET.Element, recorded: Mapping[str, str], out: dict[str, str], uid: str, around: Surroundings
) -> None:
    channels = [t.get("name") for t in root.findall("devices/channel/target")]
    out["domain.agent"] = _yes(_AGENT in channels)
    logs = [log.get("file") or "" for log in root.findall("devices/serial/log")]
    out["domain.console_log"] = _yes(any(basename(path) == names.console(uid) for path in logs))
    seed = names.seed(uid)
    there = any(basename(source) == seed for source in _sources(root).values())
    if there and around.volumes is not None and seed not in around.volumes:
        there = False
    out["domain.seed"] = _yes(there)
    if not there and recorded.get("domain.seed", "true") == "true":
        for name in [n for n in out if n.startswith(_SEEDED)]:
            del out[name]


def _kib(found: ET.Element | None) -> int | None:
    if found is None or not found.text:
        return None
    return round(int(found.text) * _KIB.get(found.get("unit", "KiB"), 1))


def _mib(kib: int) -> str:
    return f"{kib // 1024}MiB" if kib % 1024 == 0 else f"{kib}KiB"


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _set(out: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        out.pop(name, None)
    else:
        out[name] = value

"""Virtual machines: what belongs together in `domain:`, and what a guest cannot be given."""

from __future__ import annotations

import re

from manifests.manifest import Key, Path
from manifests.placeholder import is_template
from manifests.rules.review import Review, fleet_key, size
from manifests.schema.domain import Boot, Domain, PinnedFile
from manifests.schema.fleet import EnvVar, Fleet, Group, Limits

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PARTS = ("disk", "kernel", "initrd")


def check(review: Review) -> None:
    """Every rule about virtual machines."""
    for fleet in review.manifests.fleets.values():
        for i, group in enumerate(fleet.groups):
            _group(review, fleet, ("groups", i), group)


def _group(review: Review, fleet: Fleet, path: Path, group: Group) -> None:
    key = fleet_key(fleet)
    if group.substrate == "qemu":
        domain = group.domain or Domain()
        _boot(review, key, (*path, "domain", "boot"), domain.boot)
        _pins(review, key, (*path, "domain"), domain)
        _networks(review, key, (*path, "domain", "networks"), domain)
        _volumes(review, key, (*path, "domain", "volumes"), domain)
        _address(review, key, path, group, domain)
        _guest(review, key, path, group, domain)
        _reload(review, key, path, group)
    elif group.domain is not None:
        review.error(
            "group.domain",
            "A group that is not on qemu has `domain`",
            f"Group {group.name} is on {group.substrate}.",
            key,
            (*path, "domain"),
            "remove it, or write `substrate: qemu`",
        )


def _boot(review: Review, key: Key, path: Path, boot: Boot) -> None:
    if getattr(boot, boot.artifact) is not None:
        review.error(
            "domain.boot-twice",
            "A part of what a domain boots comes from two places",
            f"The release's artifact is the {boot.artifact}, and `{boot.artifact}` pins another file.",
            key,
            (*path, boot.artifact),
            "remove it, or say with `artifact` which other part the release is",
        )
    kernel = boot.artifact == "kernel" or boot.kernel is not None
    for name, given in (
        ("initrd", boot.artifact == "initrd" or boot.initrd is not None),
        ("kernel_args", bool(boot.kernel_args)),
    ):
        if given and not kernel:
            review.error(
                "domain.no-kernel",
                "A domain has no kernel to boot directly",
                f"`{name}` is given to a kernel, and none is.",
                key,
                (*path, name) if name == "kernel_args" or boot.initrd is not None else (*path, "artifact"),
                "pin a `kernel`, or leave this to the disk's own boot loader",
            )
    if boot.disk_size is not None and boot.artifact != "disk" and boot.disk is None:
        review.error(
            "domain.no-disk",
            "A disk that is not there has a size",
            "Neither the release's artifact nor `disk` is one.",
            key,
            (*path, "disk_size"),
            "remove it, or give the node a volume under `volumes`",
        )


def _pins(review: Review, key: Key, path: Path, domain: Domain) -> None:
    pins: dict[Path, PinnedFile | None] = {("boot", name): getattr(domain.boot, name) for name in _PARTS}
    pins["template",] = domain.template
    for below, pin in pins.items():
        scheme = _SCHEME.match(pin.source) if pin is not None else None
        if scheme is not None and scheme[1] != "https":
            review.error(
                "artifact.source",
                "An artifact's source cannot be used",
                f"{scheme[1]}:// is not fetched; a source is a path beside the manifest, or an https:// URL.",
                key,
                (*path, *below, "source"),
                "use https://, or download it and name the file",
            )


def _networks(review: Review, key: Key, path: Path, domain: Domain) -> None:
    for i, network in enumerate(domain.networks):
        if (network.network is None) == (network.bridge is None):
            review.error(
                "domain.network",
                "An interface is in one network, or on one bridge",
                "It has both." if network.network is not None else "It has neither.",
                key,
                (*path, i),
                "write {network: NAME} or {bridge: NAME}",
            )


def _volumes(review: Review, key: Key, path: Path, domain: Domain) -> None:
    seen: set[str] = set()
    for i, volume in enumerate(domain.volumes):
        if volume.name in seen:
            review.error(
                "domain.volume-twice",
                "Two volumes of a node have one name",
                f"{volume.name} is there already.",
                key,
                (*path, i, "name"),
                "give it another name",
            )
        seen.add(volume.name)


def _address(review: Review, key: Key, path: Path, group: Group, domain: Domain) -> None:
    at = (*path, "domain", "address")
    address = domain.address
    if address.by == "static":
        own = group.nodes is not None and all(n.address is not None for n in group.nodes)
        if address.value is None and not own:
            review.error(
                "domain.address",
                "A node's static address is not given",
                f"Group {group.name} has nodes whose address nobody wrote down.",
                key,
                at,
                'write value: "192.0.2.{{ node.index + 10 }}", or name the nodes, each with an address',
            )
        elif address.value is not None and not is_template(address.value) and size(group) > 1:
            review.error(
                "domain.address-shared",
                "Several nodes have one address",
                f"Group {group.name} has {size(group)} nodes, all at {address.value}.",
                key,
                (*at, "value"),
                'let it depend on the node: "192.0.2.{{ node.index + 10 }}"',
            )
    elif address.value is not None:
        review.error(
            "domain.address",
            "An address is written out and looked for",
            f"`by: {address.by}` finds the address itself.",
            key,
            (*at, "value"),
            "remove it, or write `by: static`",
        )


def _guest(review: Review, key: Key, path: Path, group: Group, domain: Domain) -> None:
    process = group.process
    for name, given in (("user", process.user is not None), ("limits", process.limits != Limits())):
        if given:
            review.error(
                "domain.process",
                "A guest decides this itself",
                f"`{name}` of a process has no meaning for a virtual machine.",
                key,
                (*path, "process", name),
                "use `domain.memory` and `domain.vcpus`" if name == "limits" else "remove it",
            )
    if not domain.seed:
        for name in ("env", "files"):
            if getattr(process, name):
                review.error(
                    "domain.no-seed",
                    "A guest without a seed is given something",
                    f"`{name}` reach a guest on its seed, and `seed` is false.",
                    key,
                    (*path, "process", name),
                    "remove them, or write `seed: true`",
                )
    asked = (("address", "by"), domain.address.by == "agent"), (("shutdown",), domain.shutdown == "agent")
    wants = [(*path, "domain", *where) for where, needs in asked if needs]
    wants += [(*path, "health", "command")] if group.health.command is not None else []
    for where in wants if not domain.agent else []:
        review.error(
            "domain.no-agent",
            "The guest's agent is needed, and it has no channel",
            "`agent` is false.",
            key,
            where,
            "write `agent: true`, and have the agent in the guest",
        )


def _reload(review: Review, key: Key, path: Path, group: Group) -> None:
    process = group.process
    places: list[Path] = [("on_change",)] if process.on_change == "reload" else []
    places += [("files", i, "on_change") for i, f in enumerate(process.files) if f.on_change == "reload"]
    places += [
        ("env", name, "on_change")
        for name, value in process.env.items()
        if isinstance(value, EnvVar) and value.on_change == "reload"
    ]
    for place in places:
        review.error(
            "domain.reload",
            "A guest reads its seed when it boots",
            "It cannot be told to reload.",
            key,
            (*path, "process", *place),
            "write restart",
        )

"""What a virtual machine of the laboratory boots: Debian's cloud kernel and an initramfs of busybox and node.sh."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cache import cache_dir, locked
from tests.lab.process import LabError, find, missing_programs, run, text

GUEST_INIT = Path(__file__).with_name("guest-init.sh")
NODE_SCRIPT = Path(__file__).with_name("node.sh")
KERNEL_PACKAGE = "linux-image-cloud-amd64"
AGENT_PACKAGE = "qemu-guest-agent"
BUILD_TIMEOUT_S = 300.0
GUEST_PORT = 8080

MODULES = (
    "virtio_pci",
    "virtio_net",
    "virtio_blk",
    "virtio_console",
    "virtio-rng",
    "evdev",
    "button",
    "isofs",
    "nls_iso8859-1",
    "vfat",
)
"""Drivers of the guest; depmod finds what each needs before it."""

POWER_BUTTON = b"#!/bin/sh\nkill -TERM $(cat /run/node.pid)\n"
# What the guest agent runs when it is asked to shut the guest down.
AGENT_SHUTDOWN = b"""#!/bin/sh
echo "guest: its agent was asked to shut down" >/dev/console
umount /data 2>/dev/null
sync
poweroff -f
"""
DHCP_SCRIPT = b"""#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route add default via "${router%% *}"
"""
AGENT_START = b"""#!/bin/sh
exec /agent/qemu-ga --method=virtio-serial --path="$(echo /dev/vport*p*)" >/tmp/agent.log 2>&1
"""


@dataclass(frozen=True)
class GuestImage:
    """A kernel and an initramfs, ready for direct kernel boot."""

    kernel: Path
    initramfs: Path


def missing() -> str | None:
    """Why guests cannot be built here, in one line, or None."""
    programs = ("apt-get", "apt-cache", "dpkg", "busybox", "depmod", "ldd", "qemu-img", "mke2fs")
    return missing_programs(*programs, package_set="libvirt")


def guest_image() -> GuestImage:
    """The kernel and the initramfs, built first if the cache has none (some seconds)."""
    recipe = hashlib.sha256(GUEST_INIT.read_bytes() + NODE_SCRIPT.read_bytes() + Path(__file__).read_bytes())
    home = cache_dir() / f"guest-{recipe.hexdigest()[:12]}"
    with locked("guest", timeout_s=BUILD_TIMEOUT_S):
        if not home.exists():
            work = Path(tempfile.mkdtemp(prefix="guest-", dir=cache_dir()))
            try:
                _build(work)
                (work / "image").rename(home)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return GuestImage(home / "vmlinuz", home / "initramfs")


def make_disk_image(path: Path, version: str) -> Path:
    """Make a qcow2 image whose `/version` names the version that a node on it serves (`lab.image=/dev/vda`)."""
    with tempfile.TemporaryDirectory() as directory:
        tree, raw = Path(directory, "tree"), Path(directory, "raw")
        tree.mkdir()
        (tree / "version").write_text(f"{version}\n")
        run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, raw, "8M"])
        run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path])
    path.chmod(0o644)
    return path


def _build(work: Path) -> None:
    kernel_tree = unpacked(_kernel_package(), work / "kernel")
    version = next((kernel_tree / "lib/modules").iterdir()).name
    files: dict[str, tuple[bytes, int]] = {
        "init": (GUEST_INIT.read_bytes(), 0o755),
        "bin/node": (NODE_SCRIPT.read_bytes(), 0o755),
        "bin/busybox": (Path(find("busybox") or "busybox").read_bytes(), 0o755),
        "etc/acpi/PWRF/00000080": (POWER_BUTTON, 0o755),
        "etc/udhcpc.sh": (DHCP_SCRIPT, 0o755),
    }
    order = _modules(kernel_tree, version)
    for path in order:
        files[f"modules.d/{path.name}"] = (path.read_bytes(), 0o644)
    files["modules"] = ("".join(f"/modules.d/{path.name}\n" for path in order).encode(), 0o644)
    files |= _agent(unpacked(AGENT_PACKAGE, work / "agent"))
    links = {f"bin/{name}": "busybox" for name in text(["busybox", "--list"]).split()}
    image = work / "image"
    image.mkdir()
    (image / "initramfs").write_bytes(gzip.compress(_cpio(files, links), compresslevel=6, mtime=0))
    shutil.copy(kernel_tree / "boot" / f"vmlinuz-{version}", image / "vmlinuz")
    for path in image.iterdir():
        path.chmod(0o644)


def _kernel_package() -> str:
    """The package with the kernel itself, on which the one with the lasting name depends."""
    for line in text(["apt-cache", "depends", KERNEL_PACKAGE]).splitlines():
        found = re.match(r"\s*Depends: (linux-image-\d\S+)", line)
        if found:
            return found[1]
    raise LabError(f"{KERNEL_PACKAGE} is not in this machine's package lists; run `apt-get update`")


def unpacked(package: str, place: Path) -> Path:
    """Download a package without installing it, and unpack it."""
    place.mkdir()
    # apt-get downloads to the working directory, and gives up root for it where it can.
    run(
        ["sh", "-c", f"cd {place} && apt-get -q -o APT::Sandbox::User=root download {package}"],
        timeout_s=BUILD_TIMEOUT_S,
    )
    archive = next(place.glob("*.deb"))
    run(["dpkg", "-x", archive, place / "tree"])
    return place / "tree"


def _modules(tree: Path, version: str) -> list[Path]:
    """The drivers and what they need, in an order in which each can be loaded."""
    run(["depmod", "-b", tree, version])
    base = tree / "lib/modules" / version
    needs: dict[str, list[str]] = {}
    for line in (base / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    by_name = {Path(path).stem: path for path in needs}
    order: list[str] = []

    def add(path: str) -> None:
        # depmod lists all that a module needs, the deepest last.
        for other in reversed(needs[path]):
            if other not in order:
                order.append(other)
        if path not in order:
            order.append(path)

    for name in MODULES:
        if name in by_name:
            add(by_name[name])
    return [base / path for path in order]


def _agent(tree: Path) -> dict[str, tuple[bytes, int]]:
    """QEMU's guest agent with the libraries it is linked to, which the machine has with QEMU itself."""
    program = tree / "usr/sbin/qemu-ga"
    files = {
        "agent/qemu-ga": (program.read_bytes(), 0o755),
        "agent/start": (AGENT_START, 0o755),
        "sbin/shutdown": (AGENT_SHUTDOWN, 0o755),
    }
    for word in text(["ldd", program]).split():
        if word.startswith("/") and Path(word).exists():
            files[word.lstrip("/")] = (Path(word).read_bytes(), 0o755)
    return files


def _cpio(files: dict[str, tuple[bytes, int]], links: dict[str, str]) -> bytes:
    """An archive in cpio's `newc` format, which the kernel unpacks as its first file system."""
    directories = {str(parent) for name in [*files, *links] for parent in Path(name).parents} - {"."}
    entries = [(name, b"", 0o040755) for name in sorted(directories)]
    entries += [(name, content, 0o100000 | mode) for name, (content, mode) in sorted(files.items())]
    entries += [
        (name, target.encode(), 0o120777) for name, target in sorted(links.items()) if name not in files
    ]
    entries.append(("TRAILER!!!", b"", 0))
    out = bytearray()
    for number, (name, content, mode) in enumerate(entries, start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + os.fsencode(name) + b"\0"
        out += b"\0" * (-len(out) % 4)
        out += content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)

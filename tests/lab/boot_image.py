"""A disk that boots by itself, as a downloaded cloud image does: GRUB for the BIOS, and the laboratory's guest."""

from __future__ import annotations

import hashlib
import shutil
import struct
import tempfile
from pathlib import Path

from tests.lab.cache import cache_dir, locked
from tests.lab.guest_image import BUILD_TIMEOUT_S, guest_image, unpacked
from tests.lab.process import run

MODULES = ("biosdisk", "part_msdos", "ext2", "linux", "boot")
"""What GRUB needs to find a kernel on the first partition of the first disk."""

# The version is read from the partition, and what a node keeps from the first data volume.
START = """\
linux (hd0,msdos1)/vmlinuz console=ttyS0 quiet panic=-1 lab.image=/dev/vda1 lab.data=/dev/vdb
initrd (hd0,msdos1)/initramfs
boot
"""
SECTOR_B = 512
PARTITION_AT_SECTOR = 2048
PARTITION_SIZE = "40M"
BOOT_CODE_B = 446
"""What of the first sector is code; the table of partitions follows."""


def make_boot_image(path: Path, version: str) -> Path:
    """Make a qcow2 image whose guest serves node.sh on port 8080 as `version`, at the address that DHCP gives."""
    guest, loader = guest_image(), _loader()
    with tempfile.TemporaryDirectory() as directory:
        tree, partition, disk = (Path(directory, name) for name in ("tree", "partition", "disk"))
        tree.mkdir()
        shutil.copy(guest.kernel, tree / "vmlinuz")
        shutil.copy(guest.initramfs, tree / "initramfs")
        (tree / "version").write_text(f"{version}\n")
        run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, partition, PARTITION_SIZE])
        disk.write_bytes(_disk(loader, partition.read_bytes()))
        run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, path])
    path.chmod(0o644)
    return path


def _disk(loader: Path, partition: bytes) -> bytes:
    """GRUB's first sector with a table of one bootable Linux partition, the rest of GRUB behind it, the partition."""
    first, rest = (loader / "boot.img").read_bytes(), (loader / "core.img").read_bytes()
    entry = struct.pack(
        "<B3sB3sII", 0x80, b"\0\2\0", 0x83, b"\xff" * 3, PARTITION_AT_SECTOR, len(partition) // SECTOR_B
    )
    head = first[:BOOT_CODE_B] + entry + bytes(3 * len(entry)) + b"\x55\xaa" + rest
    return head.ljust(PARTITION_AT_SECTOR * SECTOR_B, b"\0") + partition


def _loader() -> Path:
    """A folder with `boot.img` and `core.img`, built first if the cache has none (a second or two)."""
    home = cache_dir() / f"boot-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"
    with locked("boot", timeout_s=BUILD_TIMEOUT_S):
        if not home.exists():
            work = Path(tempfile.mkdtemp(prefix="boot-", dir=cache_dir()))
            try:
                _build(work)
                (work / "loader").rename(home)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return home


def _build(work: Path) -> None:
    modules = unpacked("grub-pc-bin", work / "modules") / "usr/lib/grub/i386-pc"
    program = unpacked("grub-common", work / "programs") / "usr/bin/grub-mkimage"
    start, made = work / "start.cfg", work / "loader"
    start.write_text(START)
    made.mkdir()
    place = ["-d", modules, "-O", "i386-pc", "-p", "(hd0,msdos1)/", "-c", start]
    run([program, *place, "-o", made / "core.img", *MODULES])
    shutil.copy(modules / "boot.img", made / "boot.img")

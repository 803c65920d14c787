"""Packs a guest: busybox, its scripts and drivers, as an archive that the kernel unpacks (cpio, format newc).

initramfs.py OUT VERSION GUEST_FOLDER BUSYBOX MODULE...
"""

import gzip
import sys
from pathlib import Path

FOLDER, FILE, LINK = 0o040755, 0o100755, 0o120777


def entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    """One entry: a head of hexadecimal numbers, the name, the content, each padded to four bytes."""
    numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % n for n in numbers) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def main(out: str, version: str, guest: str, busybox: str, *modules: str) -> None:
    files = {
        "init": Path(guest, "init").read_bytes(),
        "udhcpc.sh": Path(guest, "udhcpc.sh").read_bytes(),
        "etc/acpi/PWRF/00000080": Path(guest, "power-button").read_bytes(),
        "etc/release": f"{version}\n".encode(),
        "bin/busybox": Path(busybox).read_bytes(),
    }
    for path in map(Path, modules):
        files[f"drivers/{path.name}"] = path.read_bytes()
    files["modules"] = "".join(f"/drivers/{Path(path).name}\n" for path in modules).encode()
    folders = {str(p) for name in files for p in Path(name).parents} - {"."}
    entries = [(name, FOLDER, b"") for name in sorted(folders)]
    entries += [(name, FILE, data) for name, data in sorted(files.items())]
    entries += [("bin/sh", LINK, b"busybox"), ("TRAILER!!!", 0, b"")]
    archive = b"".join(entry(n, *each) for n, each in enumerate(entries, start=1))
    # No time in it: the same guest has the same digest.
    Path(out).write_bytes(gzip.compress(archive, mtime=0))


main(*sys.argv[1:])

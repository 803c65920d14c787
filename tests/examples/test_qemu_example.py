"""The QEMU example runs as its README writes it, on the laboratory's libvirt and a network of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import run_page
from tests.docs.reader import Reader, follows
from tests.examples.copies import copy_example
from tests.lab.libvirt_lab import LibvirtLab

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
# Its guests are emulated, and booted five times.
pytestmark = pytest.mark.timeout(600)
STEP_TIMEOUT_S = 120.0


@follows("examples/qemu/README.md")
def test_the_qemu_example_runs_as_written(reader: Reader, tmp_path: Path, libvirt_lab: LibvirtLab) -> None:
    folder = reader.path = copy_example("qemu", tmp_path)
    reader.timeout_s = STEP_TIMEOUT_S
    here = f"--var libvirt='qemu+unix:///system?socket={libvirt_lab.socket}'"
    reader.run("export PATH=")
    reader.run("./images.sh")
    destroy = next(c.line for c in reader.left() if c.line.startswith("fleetctl destroy"))
    with libvirt_lab.network("default"):
        try:
            reader.run("fleetctl apply", more=here)
            assert "2 of 2 available" in reader.run("fleetctl status", more=here)
            assert "never below 1 of 2" in reader.run("fleetctl apply", more=here)
            assert "No changes" in reader.run("fleetctl plan", more=here)
            reader.run("fleetctl destroy", more=here)
        finally:
            # The README's own line has done it, unless one before it has failed.
            if libvirt_lab.out("list", "--all", "--name"):
                run_page.in_shell(f"{destroy} {here}", reader, STEP_TIMEOUT_S)
    gone = reader.run("fleetctl gc", more=here)
    libvirt_lab.virsh("pool-refresh", "fleetctl")
    left = libvirt_lab.out("vol-list", "fleetctl")
    pins = set(re.findall(r"sha256:([0-9a-f]{64})", (folder / ".images" / "releases.yaml").read_text()))
    assert [pin for pin in pins if pin in left] == [], gone
    assert libvirt_lab.out("list", "--all", "--name") == ""

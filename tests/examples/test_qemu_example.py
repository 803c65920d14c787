"""The QEMU example runs as its README writes it, on the laboratory's libvirt and a network of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.test_remote_examples import _commands, _run
from tests.house.sources import ROOT
from tests.lab.libvirt_lab import LibvirtLab

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
# Its guests are emulated, and booted five times.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def network(libvirt_lab: LibvirtLab) -> Iterator[str]:
    """A network of libvirt that gives addresses, as `default` does on a machine of one's own."""
    prefix = libvirt_lab.address(1).rpartition(".")[0]
    path = libvirt_lab.directory / "example.xml"
    path.write_text(f"""<network><name>example</name><bridge name='{libvirt_lab.slot.bridge}-2'/>
      <ip address='{prefix}.161' prefix='27'>
        <dhcp><range start='{prefix}.162' end='{prefix}.180'/></dhcp></ip></network>""")
    libvirt_lab.virsh("net-create", str(path))
    yield "example"
    libvirt_lab.virsh("net-destroy", "example")


def test_the_qemu_example_runs_as_written(tmp_path: Path, libvirt_lab: LibvirtLab, network: str) -> None:
    folder = tmp_path / "qemu"
    ignored = shutil.ignore_patterns(".fleetctl", ".images")
    shutil.copytree(ROOT / "examples" / "qemu", folder, ignore=ignored)
    lines = _commands(folder / "README.md")
    assert lines[1] == "./images.sh"
    here = f" --var libvirt='qemu+unix:///system?socket={libvirt_lab.socket}' --var network={network}"
    asked = [line + here if line.startswith("fleetctl") else line for line in lines[1:]]
    try:
        said = _run(folder, asked[:-2], {})
        assert "2 of 2 available" in said[2]
        assert "never below 1 of 2" in said[3]
        assert "No changes" in said[4]
    finally:
        _run(folder, [f"{asked[-2]} || :"], {})
    gone = _run(folder, asked[-1:], {})
    libvirt_lab.virsh("pool-refresh", "fleetctl")
    left = libvirt_lab.out("vol-list", "fleetctl")
    pins = set(re.findall(r"sha256:([0-9a-f]{64})", (folder / ".images" / "releases.yaml").read_text()))
    assert [pin for pin in pins if pin in left] == [], gone
    assert libvirt_lab.out("list", "--all", "--name") == ""

"""The page on virtual machines: its manifests are valid, and planned against a real libvirt as it writes it.

That such a fleet boots, rolls and ends is what `examples/qemu` and the acceptance tests show.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from manifests.digest import sha256
from tests.acceptance.cli import FLEETCTL
from tests.house.sources import ROOT
from tests.lab.guest_image import make_disk_image
from tests.lab.libvirt_lab import LibvirtLab

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
PAGE = ROOT / "docs" / "how-to" / "virtual-machines.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, libvirt_lab: LibvirtLab) -> Path:
    """The page's files, each under the name that its first line says, with images and their pins."""
    for version in ("1.0.0", "1.1.0"):
        make_disk_image(tmp_path / f"shop-{version}.qcow2", version)
    for text in blocks("yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        pinned = re.sub(r"sha256:<of ([^>]+)>", lambda m: sha256((tmp_path / m.group(1)).read_bytes()), text)
        uri = f"qemu+unix:///system?socket={libvirt_lab.socket}"
        (tmp_path / name).write_text(pinned.replace("qemu:///system", uri), encoding="utf-8")
    return tmp_path


def run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FLEETCTL, *shlex.split(line)[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_what_the_page_writes_is_valid_and_is_planned(folder: Path, libvirt_lab: LibvirtLab) -> None:
    assert sorted(p.name for p in folder.glob("*.yaml")) == ["fleet.yaml", "hosts.yaml", "releases.yaml"]
    (said,) = blocks("console")
    lines = [line.removeprefix("$ ") for line in said.splitlines()]
    looks = [line for line in lines if line.split()[1] in ("validate", "plan")]
    assert len(looks) == 3
    for line in looks:
        done = run(folder, line)
        assert done.returncode == 0, done.stdout + done.stderr
        if " plan " in line:
            assert "Plan: 3 to add, 0 to change, 0 to destroy." in done.stdout, done.stdout + done.stderr
            assert ("1.1.0" in done.stdout) == ("version=1.1.0" in line)
    assert libvirt_lab.out("list", "--all", "--name") == "", "a look touches nothing"


def test_every_command_of_the_page_exists(folder: Path) -> None:
    named = {
        words.split()[0] for words in re.findall(r"fleetctl ([a-z][^`\n]*)", "\n".join(blocks("console")))
    }
    named |= set(re.findall(r"`fleetctl (\w+)", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 3
    for command in sorted(named):
        done = run(folder, f"fleetctl {command} --help")
        assert done.returncode == 0, command

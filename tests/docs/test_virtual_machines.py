"""The page on virtual machines: its fleet is looked at, made and rolled on a real libvirt, as it writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests.digest import sha256
from tests.acceptance.cli import FLEETCTL
from tests.docs import run_page
from tests.docs.pages import inline
from tests.docs.reader import Reader, follows
from tests.lab.boot_image import make_boot_image
from tests.lab.guest_image import GUEST_PORT
from tests.lab.libvirt_lab import LibvirtLab
from tests.lab.watcher import page

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
# Emulated guests boot in seconds when the machine is idle, and in many when it is not.
ROLL_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 8.0


def settle_in(reader: Reader, lab: LibvirtLab) -> None:
    """Images of one's own with their pins, the laboratory's libvirt, and guests that any machine can emulate."""
    for version in ("1.0.0", "1.1.0"):
        name = f"shop-{version}.qcow2"
        image = make_boot_image(reader.path / name, version)
        reader.put(f"sha256:<of {name}>", sha256(image.read_bytes()))
    reader.put("qemu:///system", f"qemu+unix:///system?socket={lab.socket}")
    reader.put("accelerator: kvm", "accelerator: qemu")
    reader.put("memory: 1024MiB", "memory: 256MiB")
    reader.put("vcpus: 2", "vcpus: 1")
    reader.put("interval: 1s", "interval: 200ms, timeout: 1s")
    reader.put("size: 10GiB", "size: 64MiB")
    assert reader.write_files() == ["hosts.yaml", "releases.yaml", "fleet.yaml"]


def nodes(reader: Reader) -> list[dict[str, Any]]:
    """What the command sees of the guests, in the order of their names."""
    code, said = run_page.in_shell(
        f"{FLEETCTL} inventory . --format json 2>/dev/null", reader, ROLL_TIMEOUT_S
    )
    assert code == 0, said
    found = [node for host in json.loads(said)["hosts"] for node in host["nodes"]]
    return sorted(found, key=lambda node: str(node["name"]))


def answers(reader: Reader, path: str) -> list[str | None]:
    """What each guest says of a page."""
    return [page(n["address"], GUEST_PORT, path, timeout_s=ANSWER_TIMEOUT_S) for n in nodes(reader)]


def console(reader: Reader, lab: LibvirtLab) -> str:
    """What the first guest has written, by the command that the page names between backticks."""
    (command,) = [text for text in inline(reader.text) if text.startswith("virsh vol-download ")]
    *words, file = command.replace("UID", nodes(reader)[0]["uid"]).split()[1:]
    lab.virsh(*words, str(reader.path / file))
    return (reader.path / file).read_text(encoding="utf-8", errors="replace")


@pytest.mark.timeout(900)
@follows("docs/how-to/virtual-machines.md")
def test_virtual_machines_page_makes_a_fleet_and_rolls_it(
    reader: Reader, tmp_path: Path, libvirt_lab: LibvirtLab
) -> None:
    reader.path = tmp_path
    reader.timeout_s = ROLL_TIMEOUT_S
    settle_in(reader, libvirt_lab)
    with libvirt_lab.network("default"):
        try:
            reader.run("fleetctl validate")
            assert "Plan: 3 to add, 0 to change, 0 to destroy." in reader.run("fleetctl plan")
            assert libvirt_lab.out("list", "--all", "--name") == "", "a look touches nothing"
            reader.run("fleetctl apply .", typed=["yes"])
            assert "3 of 3 available" in reader.run("fleetctl status")
            assert answers(reader, "/version") == ["1.0.0"] * 3
            for number, seed in enumerate(answers(reader, "/seed/user-data")):
                told = yaml.safe_load(str(seed))
                assert told["runcmd"] == [["systemctl", "enable", "--now", "shop"]]
                assert told["write_files"][0]["content"] == f'SHOP_NAME="web-{number}"\n'
            assert "1.0.0 serves port" in console(reader, libvirt_lab)
            assert "never below 2 of 3" in reader.run("fleetctl plan . --var")
            reader.run("fleetctl apply . --var", typed=["yes"])
            assert answers(reader, "/version") == ["1.1.0"] * 3
            assert answers(reader, "/starts") == ["2"] * 3, "the data volumes are the same"
        finally:
            run_page.in_shell(f"{FLEETCTL} destroy . --auto-approve", reader, ROLL_TIMEOUT_S)
        assert libvirt_lab.out("list", "--all", "--name") == ""

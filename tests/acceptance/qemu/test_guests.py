"""A fleet's life in virtual machines, one after the other: guests are emulated, and every boot takes its time."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.acceptance.cli import wait_for
from tests.acceptance.qemu.fleet import Guests
from tests.lab.libvirt_lab import LibvirtLab

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
# Emulated guests boot in seconds when the machine is idle, and in many when it is not.
pytestmark = pytest.mark.timeout(500)


def read_until(running: subprocess.Popen[str], words: str) -> None:
    """Reads what an apply says until these words; it must not end before."""
    assert running.stderr is not None
    for line in running.stderr:
        if words in line:
            return
    raise AssertionError(f"it ended without saying {words!r}")


def snapshot_of(guests: Guests, domain: str, name: str) -> None:
    """A snapshot as libvirt knows it, of a domain that goes on."""
    inside = guests.lab.out("dumpxml", domain, "--inactive")
    path = guests.path / "snapshot.xml"
    path.write_text(
        f"<domainsnapshot><name>{name}</name><state>shutoff</state><creationTime>1</creationTime>{inside}"
        "</domainsnapshot>"
    )
    guests.lab.virsh("snapshot-create", domain, str(path), "--redefine")
    path.unlink()


def test_from_nothing_to_three_guests_and_no_changes(guests: Guests) -> None:
    planned = guests.pending()
    assert "Plan: 3 to add, 0 to change, 0 to destroy." in planned
    assert guests.lab.out("list", "--all", "--name") == "", "a plan touches nothing"
    guests.apply()
    assert set(guests.ask("/version").values()) == {"1.0.0"}
    assert set(guests.ask("/starts").values()) == {"1"}


def test_an_upgrade_keeps_the_floor_and_the_data_as_an_outside_client_sees_it(guests: Guests) -> None:
    guests.want(version="1.1.0")
    with guests.watch() as watch:
        guests.apply()
    assert 1 <= watch.fewest_available < 3, watch.sightings
    assert set(guests.ask("/version").values()) == {"1.1.0"}
    assert set(guests.ask("/starts").values()) == {"2"}, "each counts its starts over the same data volume"


def test_a_configuration_change_goes_on_over_a_restart_of_libvirtd(
    guests: Guests, libvirt_lab: LibvirtLab
) -> None:
    """libvirtd is killed while guests boot, and comes back: the apply goes on, and no domain is made twice."""
    guests.want(greeting="changed")
    assert "domain.boot.kernel_args" in guests.pending()
    with guests.watch() as watch:
        running = guests.start("apply", ".", "--auto-approve")
        try:
            read_until(running, "destroy done")
            libvirt_lab.halt_libvirtd(kill=True)
            libvirt_lab.start_libvirtd()
            out, err = running.communicate(timeout=400)
        finally:
            running.kill()
    assert running.returncode == 0, out + err
    assert watch.fewest_available >= 1, watch.sightings
    guests.unchanged()
    assert set(guests.ask("/env").values()) == {"changed"}
    assert set(guests.ask("/starts").values()) == {"3"}
    assert len(libvirt_lab.out("list", "--all", "--name").split()) == 3


def test_a_killed_guest_and_memory_changed_by_hand_are_seen_apart_and_repaired(
    guests: Guests, libvirt_lab: LibvirtLab
) -> None:
    killed, changed = guests.domain_name("guest-1"), guests.domain_name("guest-2")
    boots = guests.ask("/boot")
    libvirt_lab.kill_domain(killed)
    libvirt_lab.virsh("setmem", changed, "200MiB", "--config")
    snapshot_of(guests, changed, "before")
    wait_for(lambda: guests.nodes()["guest-1"]["state"] == "exited", "libvirt sees the end of the guest")
    planned = guests.pending()
    assert "shut off (crashed)" in planned, planned
    assert "Changed outside of fleetctl" in planned
    assert "domain.memory: 256MiB, 200MiB of it in use (at its next start) -> 256MiB" in planned, planned
    assert "guest-0" not in planned
    assert planned.count("lost with it, and cannot be brought back: 1 snapshot (before)") == 1, planned
    document = guests.run("plan", ".", "--format", "json").json
    (fleet,) = document["fleets"]
    losses = {change["node"]: change["losses"] for change in fleet["changes"]}
    assert losses == {"guest-0": [], "guest-1": [], "guest-2": ["1 snapshot (before)"]}
    guests.apply()
    after = guests.ask("/boot")
    assert after["guest-0"] == boots["guest-0"], "nothing happened to the one that was as declared"
    assert None not in after.values()
    assert all(after[name] != boots[name] for name in ("guest-1", "guest-2"))


def test_a_paused_guest_is_told_from_one_that_ended(guests: Guests, libvirt_lab: LibvirtLab) -> None:
    domain = guests.domain_name("guest-0")
    libvirt_lab.virsh("suspend", domain)
    try:
        node = guests.nodes()["guest-0"]
        assert (node["state"], node["detail"]) == ("paused", "paused (by a user)")
    finally:
        libvirt_lab.virsh("resume", domain)


def test_a_run_that_was_killed_is_recovered(guests: Guests, libvirt_lab: LibvirtLab) -> None:
    """SIGKILL of the command right after a guest was stopped: recover finds what was done, and ends it."""
    guests.want(greeting="recovered", max_unavailable=2)
    running = guests.start("apply", ".", "--auto-approve")
    try:
        read_until(running, "stop done")
        os.kill(running.pid, signal.SIGKILL)
    finally:
        running.kill()
        running.communicate()
    refused = guests.run("apply", ".", "--auto-approve")
    assert refused.code == 5, str(refused)
    recovered = guests.run("recover", ".", "--auto-approve")
    assert recovered.code == 0, str(recovered)
    guests.unchanged()
    assert set(guests.ask("/env").values()) == {"recovered"}
    assert len(libvirt_lab.out("list", "--all", "--name").split()) == 3


def test_destroy_keeps_data_volumes_that_are_to_be_retained(guests: Guests, libvirt_lab: LibvirtLab) -> None:
    uids = {node["uid"] for node in guests.nodes().values()}
    guests.destroy()
    assert libvirt_lab.out("list", "--all", "--name") == ""
    libvirt_lab.virsh("pool-refresh", "fleetctl")
    volumes = {line.split()[0] for line in libvirt_lab.out("vol-list", "fleetctl").splitlines()}
    own = {v for v in volumes if v.partition("-")[0] in uids}
    assert own == {f"{uid}-data-store.qcow2" for uid in uids}

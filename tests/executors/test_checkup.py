"""doctor's checks: what a place's answer means, and that one that hangs delays nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from executors import checkup, registry
from executors.checkup import Check, Weight, clock_check, examine_all
from executors.clock import SystemClock
from executors.docker.examine import read as read_engine
from executors.driver import DriverError
from executors.host.examine import command, examine, read
from executors.host.layout import Layout
from executors.transport import TransportError
from executors.transports.local import LocalTransport
from manifests.schema.host import Host, Libvirt

CLOCK = SystemClock()
ANSWER = b"""fleetctl-examine 1
now=1000
user=deploy
uid=1000
arch=x86_64
os=Debian GNU/Linux 12
folder=/srv
free_kib=10485760
end
"""


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {c.name: c for c in checks}


def weights(checks: list[Check]) -> dict[str, Weight]:
    return {c.name: c.weight for c in checks}


@pytest.mark.parametrize(
    ("theirs", "resolution", "weight", "said"),
    [
        (100.5, 0.0, Weight.OK, "agrees"),
        (100.0, 1.0, Weight.OK, "agrees"),
        (99.0, 1.5, Weight.OK, "agrees"),
        (102.0, 0.0, Weight.OK, "1.0 s ahead"),
        (98.0, 0.0, Weight.OK, "2.0 s behind"),
        (110.0, 0.0, Weight.WARNING, "9.0 s ahead"),
        (60.0, 1.0, Weight.PROBLEM, "39.0 s behind"),
    ],
)
def test_a_clock_is_judged_by_what_it_cannot_have_been(
    theirs: float, resolution: float, weight: Weight, said: str
) -> None:
    """Asked at 100 and answered at 101: any time in between is no skew."""
    check = clock_check(theirs, 100.0, 101.0, resolution)
    assert (check.weight, said in check.said) == (weight, True), check


def test_this_machine_is_examined_by_the_real_script(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    checks = by_name(examine(LocalTransport(), str(root), "process", CLOCK))
    assert checks["root"].said == f"{root} will be made in {tmp_path}"
    assert {checks[n].weight for n in ("system", "tools", "root", "clock")} == {Weight.OK}
    assert not root.exists()
    assert list(
        registry.examine(Host(api_version="fleetctl/v1", kind="Host", name="h", root=str(root)), "host")
    )


def test_what_a_host_lacks_is_named_with_its_fix() -> None:
    whole = read(ANSWER, "/srv/fleet", "process", 1000.0, 1000.5)
    assert set(weights(whole).values()) == {Weight.OK}
    poor = ANSWER.replace(b"end\n", b"missing=sha256sum\nmissing=xargs\nunwritable=/srv\nend\n")
    poor = poor.replace(b"free_kib=10485760", b"free_kib=1024").replace(b"now=1000", b"now=2000")
    checks = by_name(read(poor, "/srv/fleet", "systemd", 1000.0, 1000.5))
    assert {n: c.weight for n, c in checks.items()} == {
        "system": Weight.OK,
        "tools": Weight.PROBLEM,
        "root": Weight.PROBLEM,
        "room": Weight.PROBLEM,
        "clock": Weight.PROBLEM,
        "systemd": Weight.PROBLEM,
    }
    assert checks["tools"].fix == "install coreutils findutils (or busybox)"
    assert "chown deploy /srv/fleet" in (checks["root"].fix or "")
    running = ANSWER.replace(b"end\n", b"systemd=running\nsystemd_version=systemd 252\nend\n")
    assert "become root" in (by_name(read(running, "/srv", "systemd", 1000, 1001))["systemd"].fix or "")
    units = running.replace(b"end\n", b"units=writable\nend\n")
    assert by_name(read(units, "/srv", "systemd", 1000, 1001))["systemd"].said == "systemd 252"


@pytest.mark.parametrize("answer", [b"", b"Welcome!\n" + ANSWER, ANSWER.removesuffix(b"end\n")])
def test_an_answer_that_is_not_whole_is_no_answer(answer: bytes) -> None:
    with pytest.raises(DriverError):
        read(answer, "/srv", "process", 0, 1)


def test_the_script_reads_its_input_and_no_argument() -> None:
    made = command(Layout("/a'b"), "systemd")
    assert made.argv == ("sh", "-s")
    assert made.stdin.startswith(b"root='/a'\\''b'\nsupervisor='systemd'\n")


def test_an_engines_answers() -> None:
    version = {"Version": "28.2", "ApiVersion": "1.50"}
    info = {"SystemTime": "1970-01-01T00:00:10.5Z", "Driver": "overlay2", "Warnings": ["no swap limit"]}
    assert weights(read_engine(version, info, 10.0, 11.0)) == {
        "engine": Weight.WARNING,
        "clock": Weight.OK,
        "restarts": Weight.WARNING,
    }
    well = read_engine(version, {**info, "LiveRestoreEnabled": True, "Warnings": None}, 10.0, 11.0)
    assert set(weights(well).values()) == {Weight.OK}
    late = read_engine(version, info, 100.0, 101.0)
    assert weights(late)["clock"] is Weight.PROBLEM


def test_a_libvirt_is_asked_for_its_version_and_pool() -> None:
    pytest.importorskip("libvirt")
    # A pool of its own: the test hypervisor of this process is shared, and other tests have made theirs.
    settings = Libvirt(uri="test:///default", pool="asked-about", pool_path="/var/lib/libvirt/asked-about")
    host = Host(api_version="fleetctl/v1", kind="Host", name="h", libvirt=settings)
    checks = by_name(registry.examine(host, "qemu"))
    assert checks["pool"].said == "asked-about will be made at /var/lib/libvirt/asked-about"
    assert "TEST" in checks["libvirt"].said.upper()


def test_a_place_that_hangs_delays_nobody_and_one_that_refuses_says_why() -> None:
    release = threading.Event()

    def hangs() -> list[Check]:
        release.wait()
        return []

    def refuses() -> list[Check]:
        raise TransportError("no route", hint="find one")

    def breaks() -> list[Check]:
        raise OSError("broken")

    places = {"a": hangs, "b": refuses, "c": breaks, "d": lambda: [checkup.ok("x", "y")]}
    try:
        found = examine_all(places, CLOCK, parallel=2, deadline_s=1.0)
    finally:
        release.set()
    assert list(found) == ["a", "b", "c", "d"]
    assert "no answer within" in found["a"][0].said
    assert (found["b"][0].said, found["b"][0].fix) == ("no route", "find one")
    assert found["c"][0].weight is Weight.PROBLEM
    assert [c.name for c in found["d"]] == ["reach", "x"]

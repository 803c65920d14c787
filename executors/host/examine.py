"""doctor on a host: one script that changes nothing, and what its answer means."""

from __future__ import annotations

from collections import defaultdict

from executors import checkup
from executors.checkup import Check
from executors.clock import Clock
from executors.command import Command
from executors.driver import DriverError
from executors.host.commands import SHELL
from executors.host.layout import Layout
from executors.host.shell import assign
from executors.host.supervisor import script
from executors.transport import Transport

TIMEOUT_S = 30.0
# What the scripts of this driver call; the packages are Debian's.
TOOLS = {
    "coreutils": "cat cut date dd df head id ls mkdir mv rm sha256sum sort stat sync tail tr uname",
    "grep": "grep",
    "sed": "sed",
    "findutils": "xargs",
}
# Room for a release or two, and for logs.
FREE_WARNED_B = 1 * 2**30
FREE_MIN_B = 100 * 2**20


def examine(transport: Transport, root: str, supervisor: str, clock: Clock) -> list[Check]:
    """Tools, rights, room, clock and supervisor of a host. Raises TransportError, OutcomeLost, DriverError."""
    asked_s = clock.now().timestamp()
    done = transport.run(command(Layout(root), supervisor))
    if not done.ok:
        raise DriverError(
            f"the host's shell exited {done.status}: {done.stderr.decode(errors='replace')[-200:]}"
        )
    return read(done.stdout, root, supervisor, asked_s, clock.now().timestamp())


def command(layout: Layout, supervisor: str) -> Command:
    """Everything that is asked, in one exec."""
    head = [
        assign("root", layout.root),
        assign("supervisor", supervisor),
        assign("tools", " ".join(TOOLS.values())),
    ]
    return Command(SHELL, ("\n".join(head) + f"\n{script('examine.sh')}main\n").encode(), timeout_s=TIMEOUT_S)


def read(stdout: bytes, root: str, supervisor: str, asked_s: float, answered_s: float) -> list[Check]:
    """What the script's answer means. Raises DriverError for an answer that is not whole."""
    lines = stdout.decode(errors="replace").splitlines()
    if not lines or lines[0] != "fleetctl-examine 1" or lines[-1] != "end":
        raise DriverError(
            "the host's answer is not whole", hint="does a login script on it print something, or exit?"
        )
    facts: dict[str, list[str]] = defaultdict(list)
    for line in lines[1:-1]:
        key, _, value = line.partition("=")
        facts[key].append(value)

    def one(key: str) -> str:
        return facts[key][0] if facts[key] else ""

    checks = [checkup.ok("system", " ".join(t for t in (one("os") or "an unnamed system", one("arch")) if t))]
    checks.append(_tools(facts["missing"]))
    checks.append(_folder(root, one("user"), one("folder"), bool(facts["unwritable"])))
    if one("free_kib").isdigit():
        checks.append(_room(int(one("free_kib")) * 1024, one("folder")))
    if one("now").isdigit():
        checks.append(checkup.clock_check(float(one("now")), asked_s, answered_s, resolution_s=1.0))
    if supervisor == "systemd":
        checks.append(_systemd(one("systemd"), one("systemd_version"), one("units"), one("user")))
    return checks


def _tools(missing: list[str]) -> Check:
    if not missing:
        return checkup.ok("tools", "every program that is needed is there")
    packages = sorted(p for p, names in TOOLS.items() if set(names.split()) & set(missing))
    return checkup.problem(
        "tools", f"missing: {', '.join(missing)}", f"install {' '.join(packages)} (or busybox)"
    )


def _folder(root: str, user: str, folder: str, unwritable: bool) -> Check:
    if unwritable:
        return checkup.problem(
            "root",
            f"{user} cannot write to {folder}"
            + ("" if folder == root else f", and {root} has to be made there"),
            f"as root: mkdir -p {root} && chown {user} {root}; or become another user (ssh.become), or name another root",
        )
    return checkup.ok("root", root if folder == root else f"{root} will be made in {folder}")


def _room(free_b: int, folder: str) -> Check:
    said = f"{free_b / 2**30:.1f} GiB free for {folder}"
    fix = "make room: fleetctl gc removes artifacts that nothing needs"
    if free_b < FREE_MIN_B:
        return checkup.problem("room", said, fix)
    return checkup.warning("room", said, fix) if free_b < FREE_WARNED_B else checkup.ok("room", said)


def _systemd(state: str, version: str, units: str, user: str) -> Check:
    if not state:
        return checkup.problem(
            "systemd", "is not running", "start the host with systemd, or write `supervisor: process`"
        )
    if not units:
        return checkup.problem(
            "systemd", f"{user} cannot write units", "connect as root, or become root (ssh.become)"
        )
    return checkup.ok("systemd", version or "is running")

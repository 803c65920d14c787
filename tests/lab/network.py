"""A private network for one engine: a bridge of its own and two small ranges that no real network uses.

The ranges come from 198.18.0.0/15, reserved for testing (RFC 2544, section C.2.2), so they clash with no network
of the machine. While a slot is held, an `unreachable` route covers it: a packet for a host that is gone is refused
by the machine itself and never leaves it. Several engines run side by side, each in its own slot.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cache import locked
from tests.lab.process import LabError, run

SLOTS = 64
LOCK_TIMEOUT_S = 60.0
BRIDGE_PREFIX = "flab"
ROUTE_METRIC = "4000000000"


@dataclass(frozen=True)
class Slot:
    """The network of one engine; `close()` gives it back."""

    number: int

    @property
    def bridge(self) -> str:
        """Name of the engine's default bridge."""
        return f"{BRIDGE_PREFIX}{self.number}"

    @property
    def gateway(self) -> str:
        """The machine's own address on the default bridge."""
        return f"198.18.{self.number}.1"

    @property
    def subnet(self) -> str:
        """Range of the default bridge."""
        return f"198.18.{self.number}.0/25"

    @property
    def blocks(self) -> tuple[str, ...]:
        """Ranges for networks whose addresses the tests choose themselves, 29 hosts each."""
        return tuple(f"198.18.{self.number}.{first}/27" for first in (128, 160, 192, 224))

    @property
    def covered(self) -> tuple[str, str]:
        """All addresses of the slot, as two ranges."""
        return f"198.18.{self.number}.0/24", self.pool

    @property
    def pool(self) -> str:
        """Range from which the engine cuts its other networks, /28 each."""
        return f"198.19.{self.number}.0/24"

    def close(self) -> None:
        """Remove every bridge in the two ranges and the routes. Twice is harmless."""
        for bridge in _bridges_of(self):
            run(["ip", "link", "delete", bridge], check=False)
        for route in self.covered:
            run(["ip", "route", "delete", "unreachable", route, "metric", ROUTE_METRIC], check=False)


def take_slot() -> Slot:
    """Take a free slot and set its bridge up; first those of test processes that are dead are given back.

    Raises:
        LabError: every slot is in use, or the machine refuses bridges.
    """
    # One at a time, or a slot seen as dead could be another's by the time it is cleaned.
    with locked("network", timeout_s=LOCK_TIMEOUT_S):
        return _take_slot()


def _take_slot() -> Slot:
    refusal = ""
    for slot in map(Slot, range(SLOTS)):
        if Path(f"/sys/class/net/{slot.bridge}").exists() and _owner_is_dead(slot):
            slot.close()
    for slot in map(Slot, range(SLOTS)):
        # Adding a link of a name that exists fails, so this is also the lock between test processes.
        added = run(["ip", "link", "add", slot.bridge, "type", "bridge"], check=False)
        if added.returncode != 0 and b"exists" not in added.stderr:
            refusal = added.stderr.decode(errors="replace").strip()
            break
        if added.returncode != 0:
            continue
        run(["ip", "link", "set", slot.bridge, "alias", f"pid={os.getpid()} start={_start_of(os.getpid())}"])
        run(["ip", "address", "add", f"{slot.gateway}/25", "dev", slot.bridge])
        run(["ip", "link", "set", slot.bridge, "up"])
        for route in slot.covered:
            run(["ip", "route", "add", "unreachable", route, "metric", ROUTE_METRIC], check=False)
        return slot
    raise LabError(f"no network for an engine: {refusal or f'all {SLOTS} slots are in use'}")


def _bridges_of(slot: Slot) -> list[str]:
    """Names of the bridges that carry an address of the slot or are named after it (those without address)."""
    listed = run(["ip", "-json", "address", "show", "type", "bridge"], check=False).stdout
    ranges = (f"198.18.{slot.number}.", f"198.19.{slot.number}.")
    found = []
    for link in json.loads(listed or b"[]"):
        name = str(link.get("ifname", ""))
        addresses = [str(entry.get("local", "")) for entry in link.get("addr_info", [])]
        named = name == slot.bridge or name.startswith(f"{slot.bridge}-")
        if named or any(address.startswith(ranges) for address in addresses):
            found.append(name)
    return found


def _owner_is_dead(slot: Slot) -> bool:
    shown = run(["ip", "-json", "link", "show", "dev", slot.bridge], check=False).stdout
    links = json.loads(shown or b"[]")
    alias = str(links[0].get("ifalias", "")) if links else ""
    owner = dict(word.split("=", 1) for word in alias.split() if "=" in word)
    if not owner.get("pid", "").isdigit():
        # Between `link add` and `set alias` of another process; taking it would break that one.
        return False
    return _start_of(int(owner["pid"])) != owner.get("start")


def _start_of(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot, so that a reused pid is told apart; None when gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None

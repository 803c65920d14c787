"""One node by its name, and how to reach it: for commands that are about a single node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetctl import bootstrap
from fleetctl.cli import look, options
from fleetctl.cli.invocation import Invocation
from manifests.errors import FleetctlError
from manifests.suggest import did_you_mean

if TYPE_CHECKING:
    from executors.driver import Driver, Reader
    from fleetctl.settings import Settings
    from planner.recorded import RecordedNode


class NoSuchNode(FleetctlError):
    """No node, or more than one, has this name."""

    code = "node.unknown"


@dataclass(frozen=True, slots=True)
class Found:
    """A node that the state knows, of this fleet."""

    fleet: str
    node: RecordedNode
    known: look.Known
    settings: Settings

    @property
    def address(self) -> str:
        return f"node/{self.fleet}/{self.node.name}"

    @property
    def place(self) -> tuple[str, str]:
        """Host and substrate."""
        assert self.node.spec is not None, "`find` gives nodes that were placed"
        return self.node.host, self.node.spec.substrate


def find(invocation: Invocation, wanted: options.Sources, state: str | None, name: str) -> Found:
    """The node NAME, FLEET/NAME or node/FLEET/NAME of the manifests' fleets. Raises NoSuchNode."""
    settings = options.resolve_settings(invocation, wanted.folder, state, None)
    known = look.know(invocation, look.load(invocation, wanted), settings)
    fleet, _, node = name.removeprefix("node/").rpartition("/")
    there = [
        Found(f, n, known, settings)
        for f, recorded in known.recorded.items()
        for n in recorded.live().values()
        if n.spec is not None
    ]
    found = [n for n in there if n.node.name == node and fleet in ("", n.fleet)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(n.address for n in found)
        raise NoSuchNode(f"several nodes are named {node}: {names}", hint="name the fleet, too: FLEET/NAME")
    nothing = "nothing was applied yet, so there is no node"
    otherwise = "`fleetctl status` lists the nodes" if there else nothing
    raise NoSuchNode(
        f"no node is named {name}", hint=did_you_mean(node, [n.node.name for n in there]) or otherwise
    )


@contextmanager
def reader(invocation: Invocation, found: Found) -> Iterator[Reader]:
    """What can look at the node's place, and change nothing there. Raises DriverError."""
    with closing(bootstrap.access(found.settings, invocation.clock)) as reach:
        (place,) = bootstrap.places(found.known.manifests.hosts, [found.place], reach)
        with closing(place.open()) as opened:
            yield opened


@contextmanager
def driver(invocation: Invocation, found: Found) -> Iterator[Driver]:
    """What can act at the node's place. Raises DriverError."""
    with (
        closing(bootstrap.access(found.settings, invocation.clock)) as reach,
        bootstrap.drivers(found.known.manifests.hosts, reach) as drivers,
    ):
        yield drivers(*found.place)

"""What there is: the manifests, what the state tells, and what is seen. Only readers are made here.

`plan`, `status` and `inventory` go through this module, so none of them can change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl import bootstrap
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.options import Sources
from fleetctl.settings import Settings
from manifests.errors import FleetctlError

if TYPE_CHECKING:
    from executors.driver import Reader
    from executors.inventory import Place
    from executors.registry import Access
    from fleetctl.ledger.ports import Lease
    from fleetctl.ledger.replay import Replayed
    from manifests.manifest import Manifests
    from manifests.schema.fleet import Fleet
    from planner.observed import Snapshot
    from planner.recorded import Recorded
    from planner.spec import NodeSpec

# 100,000 nodes make about 60 MB.
SNAPSHOT_MAX_B = 2**29


class SnapshotError(FleetctlError):
    """The file is not a snapshot that this release can read."""

    code = "snapshot.unreadable"


@dataclass(frozen=True, slots=True)
class Known:
    """What manifests and state tell, before any host was asked. `key` is that of secret digests."""

    manifests: Manifests
    replayed: Mapping[str, Replayed]
    leases: Mapping[str, Lease]
    key: bytes | None

    @property
    def recorded(self) -> dict[str, Recorded]:
        return {fleet: r.recorded for fleet, r in self.replayed.items()}


def load(invocation: Invocation, sources: Sources) -> Manifests:
    """The manifests, their warnings told. Raises ManifestError with every finding."""
    from manifests.load import load as load_manifests

    with invocation.timings.phase("load"):
        manifests = load_manifests(sources.paths, variables=sources.variables, var_files=sources.var_files)
    if manifests.warnings:
        from fleetctl.cli.views.diagnostics import render_diagnostics

        invocation.terminal.say(render_diagnostics(manifests.warnings, invocation.terminal.err_paint))
    return manifests


def know(invocation: Invocation, manifests: Manifests, settings: Settings) -> Known:
    """Adds what the state tells of these fleets. Creates nothing. Raises StateError."""
    with invocation.timings.phase("state"):
        store = bootstrap.open_store(settings, invocation.clock, read_only=True)
        try:
            replayed = bootstrap.replayed(store, manifests.fleets)
            held = {fleet: store.current(fleet) for fleet in manifests.fleets if replayed[fleet].open_run}
            key = store.secrets_key()
        finally:
            store.close()
    return Known(manifests, replayed, {f: lease for f, lease in held.items() if lease is not None}, key)


def observe(invocation: Invocation, known: Known, settings: Settings) -> Snapshot:
    """Looks at every host that the fleets are or were on, and probes what runs."""
    with closing(bootstrap.access(settings, invocation.clock)) as reach:
        return _observe(invocation, known, settings, reach, lambda place: place)


@contextmanager
def watching(invocation: Invocation, settings: Settings) -> Iterator[Callable[[Known], Snapshot]]:
    """`observe` for many times: connections are kept open from one look to the next."""
    from fleetctl.engine.look import Kept

    opened: dict[tuple[str, str], Reader] = {}

    def kept(place: Place) -> Place:
        def open_once() -> Reader:
            key = (place.host, place.substrate)
            if key not in opened:
                opened[key] = place.open()
            return Kept(opened[key])

        return replace(place, open=open_once)

    with closing(bootstrap.access(settings, invocation.clock)) as reach:
        try:
            yield lambda known: _observe(invocation, known, settings, reach, kept)
        finally:
            for reader in opened.values():
                reader.close()


def _observe(
    invocation: Invocation,
    known: Known,
    settings: Settings,
    reach: Access,
    through: Callable[[Place], Place],
) -> Snapshot:
    from executors import inventory

    wanted = set(_declared(known.manifests.fleets.values()))
    specs: dict[str, NodeSpec] = {}
    for recorded in known.recorded.values():
        for node in recorded.live().values():
            if node.spec is not None:
                specs[node.uid] = node.spec
                wanted.add((node.host, node.spec.substrate))
    with invocation.timings.phase("observe"):
        snapshot = inventory.observe(
            [through(p) for p in bootstrap.places(known.manifests.hosts, wanted, reach)],
            clock=invocation.clock,
            fleets=frozenset(known.manifests.fleets),
            specs=specs,
            parallel=settings.parallelism,
        )
    return _named(snapshot, known.recorded)


def _named(snapshot: Snapshot, recorded: Mapping[str, Recorded]) -> Snapshot:
    """Nodes under the names they have now: a host's record keeps the old one until the node is placed again."""
    now = {n.uid: n.name for r in recorded.values() for n in r.live().values()}
    if all(now.get(n.uid, n.name) == n.name for h in snapshot.hosts for n in h.nodes):
        return snapshot
    hosts = tuple(
        h.model_copy(
            update={"nodes": tuple(n.model_copy(update={"name": now.get(n.uid, n.name)}) for n in h.nodes)}
        )
        for h in snapshot.hosts
    )
    return snapshot.model_copy(update={"hosts": hosts})


def read_snapshot(invocation: Invocation, path: Path) -> Snapshot:
    """The snapshot in a file, as `inventory --format json` writes it. Raises SnapshotError."""
    from planner.observed import FORMAT_VERSION, Snapshot

    with invocation.timings.phase("observe"):
        try:
            if path.stat().st_size > SNAPSHOT_MAX_B:
                raise SnapshotError(
                    f"{path} is too large for a snapshot ({SNAPSHOT_MAX_B >> 20} MiB at most)"
                )
            data = path.read_bytes()
        except OSError as error:
            raise SnapshotError(f"the snapshot cannot be read from {path}: {error.strerror}") from error
        try:
            snapshot = Snapshot.model_validate_json(data)
        except ValueError as error:
            raise SnapshotError(
                f"{path} is not a snapshot that this fleetctl can read",
                hint="make one: fleetctl inventory --format json > FILE",
            ) from error
    if snapshot.format_version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise SnapshotError(
            f"{path} has the snapshot format {snapshot.format_version}, and this fleetctl reads {FORMAT_VERSION}"
        )
    return snapshot


def _declared(fleets: Iterable[Fleet]) -> Iterator[tuple[str, str]]:
    for fleet in fleets:
        for group in fleet.groups:
            for host in group.hosts:
                yield host, group.substrate
            for node in group.nodes or ():
                if node.host is not None:
                    yield node.host, group.substrate

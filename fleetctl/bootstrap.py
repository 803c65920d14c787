"""The composition root: what the commands are handed, made from settings. The only module that names concrete stores."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from executors.clock import Clock
from fleetctl.settings import RemoteState, Settings

if TYPE_CHECKING:
    from executors.command import Command, Completed
    from executors.driver import Driver, Reader
    from executors.inventory import Place
    from executors.registry import Access
    from fleetctl.engine.apply import Engine
    from fleetctl.engine.judging import Judge
    from fleetctl.engine.observer import Observer
    from fleetctl.engine.rename import Named, Rename
    from fleetctl.ledger.ports import Holder, Store
    from fleetctl.ledger.replay import Replayed
    from fleetctl.stores.qualify_verdict import Measured as Measured
    from fleetctl.stores.qualify_verdict import Report as Report
    from fleetctl.stores.s3 import S3Store
    from fleetctl.stores.s3_journal import Compacted as Compacted
    from fleetctl.stores.transfer import Copied as Copied
    from fleetctl.stores.upkeep import Verdict as Verdict
    from manifests.schema.host import Host

STATE_FILE = "state.db"
_ASKING = threading.Lock()


def open_store(settings: Settings, clock: Clock, *, read_only: bool) -> Store:
    """The state of these settings. Read-only: creates nothing, and an absent one is empty. Raises StateError."""
    from fleetctl.stores.processes import SystemProcesses

    if settings.remote is not None:
        return open_bucket(settings.remote, clock, read_only=read_only)
    from fleetctl.stores.sqlite import SqliteStore

    return SqliteStore(settings.state / STATE_FILE, clock, SystemProcesses(), read_only=read_only)


def open_bucket(remote: RemoteState, clock: Clock, *, read_only: bool) -> S3Store:
    """The state in a bucket, as `open_store` gives it."""
    from fleetctl.stores.processes import SystemProcesses
    from fleetctl.stores.s3 import S3Store
    from fleetctl.stores.s3_bucket import Place

    place = Place(remote.bucket, remote.prefix, remote.endpoint)
    return S3Store(place, clock, SystemProcesses(), read_only=read_only)


def replayed(store: Store, fleets: Iterable[str]) -> dict[str, Replayed]:
    """What the state tells of these fleets, by name. Raises StateError."""
    from fleetctl.ledger.replay import replay

    return {fleet: replay(fleet, store.read(fleet)) for fleet in fleets}


def access(settings: Settings, clock: Clock) -> Access:
    """How the hosts of one command are reached; `close` it when the command is done with them."""
    from executors import secrets
    from executors.registry import Access

    return Access(clock, secrets.remembering(), _ask, settings.accept_new_host_keys)


def _ask(question: str) -> str | None:
    """A passphrase, from the person at the terminal; None where there is none. One question at a time."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    with _ASKING:
        return getpass.getpass(f"{question}: ", sys.stderr)


def places(hosts: Mapping[str, Host], wanted: Iterable[tuple[str, str]], reach: Access) -> list[Place]:
    """Where to look: one place per (host, substrate). They open readers, which cannot change anything."""
    from executors.inventory import Place

    return [
        Place(name, substrate, partial(_reader, hosts.get(name), name, substrate, reach))
        for name, substrate in sorted(set(wanted))
    ]


def _reader(host: Host | None, name: str, substrate: str, reach: Access) -> Reader:
    from executors import registry
    from executors.driver import DriverError

    if host is None:
        raise DriverError(f"host {name} is in no manifest any more, so nobody knows how to reach it")
    return registry.reader(host, substrate, reach)


def engine(settings: Settings, clock: Clock, store: Store, observer: Observer, reach: Access) -> Engine:
    """Everything that a run needs: drivers that act, artifacts, secrets. Only commands that act call this."""
    from executors import artifacts, registry, secrets
    from fleetctl.engine.apply import Engine
    from fleetctl.stores.processes import SystemProcesses, this_process
    from planner.check import check

    return Engine(
        store=store,
        drivers=partial(registry.driver, access=reach),
        fetch=lambda pin: artifacts.fetch(pin, settings.cache, clock=clock),
        resolve=secrets.remembering(),
        clock=clock,
        # The engine writes the run and the command in.
        holder=this_process(SystemProcesses(), run="", who=_who(), command=""),
        observer=observer,
        parallelism=settings.parallelism,
        check=check,
        hooks=registry.hooks_here(settings.state),
        judge=judge(clock, os.environ),
    )


def judge(clock: Clock, environ: Mapping[str, str]) -> Judge:
    """What asks a plan's policies; their programs get this environment."""
    from executors.transports.local import LocalTransport
    from fleetctl.engine.judging import Judge
    from manifests.zones import zone

    def run(command: Command, facts: Mapping[str, str]) -> Completed:
        return LocalTransport(clock, {**environ, **facts}).run(command)

    return Judge(clock, run, zone)


def _who() -> str:
    """user@host, for those who find the lock held."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in many containers
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


@contextmanager
def drivers(hosts: Mapping[str, Host], reach: Access) -> Iterator[Callable[[str, str], Driver]]:
    """Drivers by host and substrate, each made once and closed at the end; raises DriverError for an unknown host."""
    from executors import registry
    from executors.driver import DriverError

    made: dict[tuple[str, str], Driver] = {}

    def driver(name: str, substrate: str) -> Driver:
        if (name, substrate) not in made:
            if name not in hosts:
                raise DriverError(f"host {name} is in no manifest any more, so nobody knows how to reach it")
            made[name, substrate] = registry.driver(hosts[name], substrate, reach)
        return made[name, substrate]

    try:
        yield driver
    finally:
        for each in made.values():
            each.close()


@contextmanager
def holding(store: Store, fleets: Iterable[str], command: str) -> Iterator[None]:
    """Holds these fleets, for a command that is no run; raises LeaseHeld when somebody else holds one."""
    from fleetctl.engine.tenancy import LEASE_TTL_S
    from fleetctl.stores.processes import SystemProcesses, this_process

    holder = this_process(SystemProcesses(), run="", who=_who(), command=command)
    with ExitStack() as held:
        for fleet in fleets:
            held.callback(store.release, store.acquire(fleet, holder, LEASE_TTL_S))
        yield


def rename(settings: Settings, clock: Clock, source: Named, target: Named) -> tuple[Rename, ...]:
    """Gives a node or a group another name in its fleet's journal. Raises what `engine.rename` does."""
    from executors.clock import rfc3339
    from fleetctl.engine.rename import rename, renames

    with closing(open_store(settings, clock, read_only=True)) as store:
        # What cannot be done creates nothing.
        renames(replayed(store, [source.fleet])[source.fleet].recorded, source, target)
    with closing(open_store(settings, clock, read_only=False)) as store:
        return rename(store, _this_process(clock, "move"), rfc3339(clock.now()), source, target)


def ensure_free(settings: Settings, clock: Clock, fleet: str) -> None:
    """Raises LeaseHeld when a run that is alive holds this fleet."""
    with closing(open_store(settings, clock, read_only=False)) as store, holding(store, [fleet], "look"):
        pass


# A state as a whole: `fleetctl state` and `fleetctl store` end here.


def open_file(path: Path, clock: Clock, *, read_only: bool) -> Store:
    """The state in one file, as `backup` writes it. Raises StateError."""
    from fleetctl.stores.processes import SystemProcesses
    from fleetctl.stores.sqlite import SqliteStore

    return SqliteStore(path, clock, SystemProcesses(), read_only=read_only)


def migrate(source: Store, target: Store, clock: Clock) -> list[Copied]:
    """Copies a state and closes the source, so that one of them has authority. Raises LeaseHeld, StateError."""
    from fleetctl.stores import transfer

    holder = _this_process(clock, "state migrate")
    # Fleets that an earlier try has closed already, before it was cut off, stay closed.
    still_here = transfer.not_moved(source, target.describe())
    with transfer.holding(source, still_here, holder):
        copied = transfer.copy(source, target, holder)
    transfer.leave(source, [c for c in copied if c.fleet in still_here], holder, target.describe())
    return copied


def backup(source: Store, path: Path, clock: Clock) -> list[Copied]:
    """Writes a state into one file for its owner only; a run that is under way goes on. Raises StateError."""
    from fleetctl.ledger.ports import StateError
    from fleetctl.stores import transfer

    if path.exists():
        raise StateError(f"{path} is there already", hint="name a new file; a backup replaces nothing")
    unfinished = path.with_name(f".{path.name}.{clock.new_id()}.unfinished")
    try:
        with closing(open_file(unfinished, clock, read_only=False)) as target:
            copied = transfer.copy(source, target, _this_process(clock, "state backup"))
        os.link(unfinished, path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)
    return copied


def restore(path: Path, target: Store, clock: Clock) -> list[Copied]:
    """Brings a backup into an empty place, and records that in its journals. Raises StateError."""
    from fleetctl.ledger.ports import StateError
    from fleetctl.stores import transfer

    if not path.is_file():
        raise StateError(f"there is no backup {path}", code="state.missing")
    holder = _this_process(clock, "state restore")
    with closing(open_file(path, clock, read_only=True)) as source:
        copied = transfer.copy(source, target, holder)
    transfer.mark_restored(target, copied, holder, clock, path.name)
    return copied


def verify(store: Store, fleets: Sequence[str]) -> list[Verdict]:
    """Proves everything that a state holds. Raises StateError where nothing can be read."""
    from fleetctl.stores import upkeep

    return upkeep.verify(store, fleets or store.fleets())


def compact(remote: RemoteState, fleets: Sequence[str], clock: Clock) -> Iterator[Compacted]:
    """Seals the journals of a state in a bucket, each while it is held. Raises LeaseHeld, StateError."""
    with closing(open_bucket(remote, clock, read_only=False)) as store:
        for fleet in fleets or store.fleets():
            with holding(store, [fleet], "state compact"):
                yield store.compact(fleet)


QUALIFY_ERROR = 3
"""The exit code of `store qualify` for a store that cannot be used at all."""


def qualify(
    place: str,
    endpoint: str | None,
    clock: Clock,
    say: Callable[[int, int], None],
    *,
    gateways: tuple[str, ...],
    foreign_bucket: str | None,
    p99_ms_max: float,
    without: tuple[str, ...],
    **scale: int,
) -> tuple[Measured, Report]:
    """Measures an object store and judges it; `scale` is that of `stores.qualify.Asked`. Raises FleetctlError."""
    from fleetctl.settings import S3_SCHEME, SettingsError, remote_state
    from fleetctl.stores.qualify import Asked, measure
    from fleetctl.stores.qualify_verdict import evaluate
    from fleetctl.stores.s3_bucket import Place

    url = urlsplit(place)
    if url.scheme in ("http", "https"):  # a store's URL with the bucket behind it
        endpoint, place = f"{url.scheme}://{url.netloc}", S3_SCHEME + url.path.strip("/")
    if not place.startswith(S3_SCHEME):
        raise SettingsError(
            f"{place!r} names no bucket", hint="write s3://BUCKET[/PREFIX], or https://STORE/BUCKET[/PREFIX]"
        )
    for gateway in gateways:
        remote_state(place, gateway)  # checks the URL
    remote = remote_state(place, endpoint)
    denials = "denials" not in without
    asked = Asked(gateways=gateways, foreign_bucket=foreign_bucket, denials=denials, **scale)
    measured = measure(Place(remote.bucket, remote.prefix, remote.endpoint), asked, clock, say)
    return measured, evaluate(measured, without=without, p99_ms_max=p99_ms_max)


def _this_process(clock: Clock, command: str) -> Holder:
    from fleetctl.stores.processes import SystemProcesses, this_process

    return this_process(SystemProcesses(), run=clock.new_id(), who=_who(), command=command)

"""The composition root: what the commands are handed, made from settings. The only module that names concrete stores."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from executors.clock import Clock
from fleetctl.settings import RemoteState, Settings

if TYPE_CHECKING:
    from executors.driver import Driver, Reader
    from executors.inventory import Place
    from executors.registry import Access
    from fleetctl.engine.apply import Engine
    from fleetctl.engine.observer import Observer
    from fleetctl.ledger.ports import Store
    from fleetctl.ledger.replay import Replayed
    from fleetctl.stores.s3 import S3Store
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

    return Access(clock, secrets.resolve, _ask, settings.accept_new_host_keys)


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
        resolve=secrets.resolve,
        clock=clock,
        # The engine writes the run and the command in.
        holder=this_process(SystemProcesses(), run="", who=_who(), command=""),
        observer=observer,
        parallelism=settings.parallelism,
        check=check,
    )


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
    from fleetctl.engine.apply import LEASE_TTL_S
    from fleetctl.stores.processes import SystemProcesses, this_process

    holder = this_process(SystemProcesses(), run="", who=_who(), command=command)
    with ExitStack() as held:
        for fleet in fleets:
            held.callback(store.release, store.acquire(fleet, holder, LEASE_TTL_S))
        yield


def ensure_free(settings: Settings, clock: Clock, fleet: str) -> None:
    """Raises LeaseHeld when a run that is alive holds this fleet."""
    with closing(open_store(settings, clock, read_only=False)) as store, holding(store, [fleet], "look"):
        pass

"""What doctor looks at: this machine, the state, and every place that the manifests name."""

from __future__ import annotations

import importlib.util
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from executors import checkup
from executors.checkup import Check, Examine
from fleetctl import bootstrap
from fleetctl.cli.invocation import Invocation
from fleetctl.settings import Settings
from fleetctl.version import __version__
from manifests.errors import FleetctlError

if TYPE_CHECKING:
    from executors.registry import Access
    from manifests.manifest import Manifests
    from manifests.schema.host import Host

_MODULES = {
    "docker": ("docker", "pip install docker"),
    "qemu": ("libvirt", "pip install 'fleetctl[libvirt]' (it needs libvirt-dev and pkg-config)"),
}
KNOWN_HOSTS = "~/.ssh/known_hosts"


def places(manifests: Manifests) -> list[tuple[str, str]]:
    """Each host with the substrates that groups place there; one that no group names, with what it is declared for."""
    found = {(host, g.substrate) for f in manifests.fleets.values() for g in f.groups for host in g.hosts}
    found |= {
        (n.host, g.substrate)
        for f in manifests.fleets.values()
        for g in f.groups
        for n in g.nodes or ()
        if n.host is not None
    }
    named = {host for host, _ in found}
    for name, host in manifests.hosts.items():
        if name not in named and name != "localhost":
            found.add((name, "docker" if host.docker else "qemu" if host.libvirt else "host"))
    return sorted((h, s) for h, s in found if h in manifests.hosts)


def examinations(manifests: Manifests, reach: Access) -> dict[str, Examine]:
    """How each place is looked at, by its name for people."""
    from executors import registry

    return {
        f"host/{name} ({substrate})": partial(registry.examine, manifests.hosts[name], substrate, reach)
        for name, substrate in places(manifests)
    }


def here(invocation: Invocation, settings: Settings, manifests: Manifests | None) -> list[Check]:
    """This machine: the program, what it needs, its keys, and the state."""
    checks = [
        checkup.ok("fleetctl", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    ]
    if manifests is not None:
        checks += _modules({substrate for _, substrate in places(manifests)})
        for host in manifests.hosts.values():
            checks += _ssh_files(host)
    checks.append(_cache(settings))
    checks += _state(invocation, settings)
    return list(dict.fromkeys(checks))


def _modules(substrates: set[str]) -> Iterator[Check]:
    for substrate in sorted(substrates & _MODULES.keys()):
        module, install = _MODULES[substrate]
        if importlib.util.find_spec(module) is None:
            yield checkup.problem("modules", f"{substrate} needs the Python module {module}", install)


def _ssh_files(host: Host) -> Iterator[Check]:
    if host.ssh is None:
        return
    known = Path(host.ssh.known_hosts or KNOWN_HOSTS).expanduser()
    if not known.exists():
        yield checkup.warning(
            "known_hosts",
            f"{known} is not there: no host's key is known",
            f"ssh-keyscan {host.ssh.address} >> {known}, after comparing the key; or --accept-new-host-keys once",
        )
    else:
        yield from _mode(
            "known_hosts", known, 0o022, "may be written by others, who could add their own key", "go-w"
        )
    if host.ssh.identity_file is not None:
        key = Path(host.ssh.identity_file).expanduser()
        if not os.access(key, os.R_OK):
            yield checkup.problem("identity", f"{key} cannot be read", "name another ssh.identity_file")
        else:
            yield from _mode("identity", key, 0o077, "may be read by others", "go=")


def _mode(name: str, path: Path, forbidden: int, said: str, change: str) -> Iterator[Check]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & forbidden:
        yield checkup.problem(name, f"{path} (mode {mode:04o}) {said}", f"chmod {change} {path}")
    else:
        yield checkup.ok(name, str(path))


def _cache(settings: Settings) -> Check:
    folder = settings.cache
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return checkup.ok("cache", str(settings.cache))
    return checkup.problem(
        "cache", f"{folder} cannot be written", "give it to this user, or name another: FLEETCTL_CACHE"
    )


def _state(invocation: Invocation, settings: Settings) -> Iterator[Check]:
    try:
        with closing(bootstrap.open_store(settings, invocation.clock, read_only=True)) as store:
            fleets = store.fleets()
            replayed = bootstrap.replayed(store, fleets)
            leases = {fleet: store.current(fleet) for fleet in fleets}
            where = store.describe()
    except FleetctlError as e:
        yield checkup.problem("state", e.message, e.hint)
        return
    yield checkup.ok("state", f"{where}: {', '.join(f'fleet/{f}' for f in fleets) or 'no fleet yet'}")
    file = settings.state / bootstrap.STATE_FILE
    if settings.remote is None and file.exists():
        yield from _mode(
            "state", file, 0o077, "may be read by others, and has the key of secret digests", "go="
        )
    for fleet in fleets:
        lease, run = leases[fleet], replayed[fleet].open_run
        if lease is not None:
            held = (
                f"{lease.holder.who} holds fleet/{fleet} since {lease.acquired_at} ({lease.holder.command})"
            )
            fix = (
                "one that died on this machine is replaced by fleetctl recover; one that is gone elsewhere: "
                f"fleetctl unlock {fleet} --id {lease.lease_id}"
            )
            yield checkup.warning("lock", held, fix)
        if run is not None and run.waiting:
            fix = "fleetctl resume, promote or abort"
            yield checkup.warning("run", f"a run of fleet/{fleet} waits: {run.waiting}", fix)
        elif run is not None and lease is None:
            yield checkup.problem("run", f"a run of fleet/{fleet} was cut off", "fleetctl recover")

"""The one module that names concrete drivers and transports, each loaded when a host needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from executors.driver import Driver, DriverError, Reader
from executors.transport import Transport
from manifests.schema.host import Host
from manifests.schema.release import Substrate

Factory = Callable[[Host, str], Driver]
"""Makes the driver of a host and substrate; the simulator and tests inject one in place of the real ones."""


def reader(host: Host, substrate: Substrate | str, factory: Factory | None = None, **settings: Any) -> Reader:
    """What can look at this host. Raises DriverError when the substrate cannot be used here.

    `settings` go to the SSH transport, or to the engine's or hypervisor's driver.
    """
    if factory is not None:
        return factory(host, substrate)
    match substrate:
        case "host":
            from executors.host.driver import HostReader

            return HostReader(host.name, _transport(host, settings), _root(host))
        case _:
            return driver(host, substrate, **settings)


def driver(host: Host, substrate: Substrate | str, factory: Factory | None = None, **settings: Any) -> Driver:
    """What can act on this host. Raises DriverError when the substrate cannot be used here."""
    if factory is not None:
        return factory(host, substrate)
    match substrate:
        case "host":
            from executors.host.driver import HostDriver

            return HostDriver(host.name, _transport(host, settings), _root(host))
        case _:
            raise DriverError(f"host {host.name}: there is no driver for substrate {substrate!r} yet")


def _root(host: Host) -> str:
    from executors.host.layout import DEFAULT_ROOT

    if host.root is not None:
        return host.root if host.ssh is not None else str(Path(host.root).absolute())
    return DEFAULT_ROOT


def _transport(host: Host, settings: dict[str, Any]) -> Transport:
    if host.ssh is None:
        from executors.transports.local import LocalTransport

        return LocalTransport()
    raise DriverError(f"host {host.name}: no SSH transport is installed")

"""The one module that names concrete drivers and transports, each loaded when a host needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from executors.driver import Driver, DriverError, Reader
from executors.transport import Transport
from manifests.schema.host import Host
from manifests.schema.release import Substrate

_INSTALL = {
    "paramiko": "pip install paramiko",
    "docker": "pip install docker",
    "libvirt": "pip install 'fleetctl[libvirt]' (it needs libvirt-dev and pkg-config)",
}

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
        case "docker":
            docker: Reader = _load("executors.docker.driver", host, "Docker").DockerReader(host, settings)
            return docker
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
        case "docker":
            docker: Driver = _load("executors.docker.driver", host, "Docker").DockerDriver(host, settings)
            return docker
        case "qemu":
            qemu: Driver = _load("executors.libvirt.driver", host, "libvirt").LibvirtDriver(host, settings)
            return qemu
        case _:
            raise DriverError(f"host {host.name}: there is no driver for substrate {substrate!r}")


def _root(host: Host) -> str:
    from executors.host.layout import DEFAULT_ROOT

    if host.root is None:
        return DEFAULT_ROOT
    return host.root if host.ssh is not None else str(Path(host.root).absolute())


def _transport(host: Host, settings: Mapping[str, Any]) -> Transport:
    if host.ssh is None:
        from executors.transports.local import LocalTransport

        return LocalTransport()
    module = _load("executors.transports.ssh", host, "SSH")
    transport: Transport = module.SshTransport(host, settings)
    return transport


def _load(name: str, host: Host, what: str) -> Any:
    """A driver or transport that needs a library of its own; raises DriverError with what to install."""
    try:
        return import_module(name)
    except ModuleNotFoundError as e:
        missing = e.name or name
        raise DriverError(
            f"host {host.name} needs {what}, and the Python module {missing!r} is not installed",
            hint=_INSTALL.get(missing.partition(".")[0], "install fleetctl with all its dependencies"),
        ) from e

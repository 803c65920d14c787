"""The one module that names concrete drivers and transports, each loaded when a host needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from executors.checkup import Check
from executors.clock import Clock, SystemClock
from executors.driver import Driver, DriverError, Reader
from executors.foreign import Foreign
from executors.hooks import Hooks
from executors.transport import Transport
from manifests.schema.host import Host, Libvirt
from manifests.schema.release import Substrate
from manifests.secret import Secret

if TYPE_CHECKING:
    import docker

    from executors.transports.ssh.transport import SshSettings

_INSTALL = {
    "paramiko": "pip install paramiko",
    "docker": "pip install docker",
    "libvirt": "pip install 'fleetctl[libvirt]' (it needs libvirt-dev and pkg-config)",
}

Factory = Callable[[Host, str], Driver]
"""Makes the driver of a host and substrate; the simulator and tests inject one in place of the real ones."""


def _nobody(question: str) -> None:
    """Answers no question: there is no terminal."""
    del question


def _no_secrets(ref: str) -> Secret:
    raise DriverError(f"{ref}: no secrets can be resolved here")


@dataclass(frozen=True)
class Access:
    """How hosts are reached, the same for all of a run: whom to ask, how secrets are found, what is believed.

    `close` ends what hosts share (connections to jump hosts).
    """

    clock: Clock = field(default_factory=SystemClock)
    resolve: Callable[[str], Secret] = _no_secrets
    ask: Callable[[str], str | None] = _nobody
    accept_new_host_keys: bool = False

    @cached_property
    def ssh(self) -> SshSettings:
        """What SSH transports are made with; one for all hosts, since they share jumps and start-up slots."""
        from executors.transports.ssh.transport import SshSettings

        return SshSettings(self.clock, self.resolve, self.ask, self.accept_new_host_keys)

    def close(self) -> None:
        if "ssh" in self.__dict__:
            self.ssh.jumps.close()


def reader(
    host: Host, substrate: Substrate | str, access: Access | None = None, factory: Factory | None = None
) -> Reader:
    """What can look at this host. Raises DriverError when the substrate cannot be used here."""
    if factory is not None:
        return factory(host, substrate)
    access = access or Access()
    with _installed(host):
        match substrate:
            case "host":
                from executors.host.driver import HostReader

                return HostReader(host.name, _transport(host, access), _root(host))
            case "docker":
                from executors.docker.reader import DockerReader

                return DockerReader(host.name, *_engine(host, access))
            case "qemu":
                from executors.libvirt.reader import LibvirtReader

                return LibvirtReader(host.name, *_libvirt(host, access), access.clock)
            case _:
                raise _unknown(host, substrate)


def driver(
    host: Host, substrate: Substrate | str, access: Access | None = None, factory: Factory | None = None
) -> Driver:
    """What can act on this host. Raises DriverError when the substrate cannot be used here."""
    if factory is not None:
        return factory(host, substrate)
    access = access or Access()
    with _installed(host):
        match substrate:
            case "host":
                from executors.host.driver import HostDriver

                return HostDriver(
                    host.name, _transport(host, access), _root(host), host.supervisor, access.clock
                )
            case "docker":
                from executors.docker.driver import DockerDriver

                return DockerDriver(host.name, *_engine(host, access), access.clock)
            case "qemu":
                from executors.libvirt.driver import LibvirtDriver

                return LibvirtDriver(host.name, *_libvirt(host, access), access.clock)
            case _:
                raise _unknown(host, substrate)


def hooks_here(root: Path) -> Hooks:
    """Where hooks run beside fleetctl, with its own environment; `root` keeps their records."""
    from executors.host.hooks import RecordedHooks
    from executors.host.layout import Layout
    from executors.transports.local import LocalTransport

    return RecordedHooks(LocalTransport(environ=os.environ), Layout(str(root.absolute())))


def examine(host: Host, substrate: Substrate | str, access: Access | None = None) -> list[Check]:
    """What `doctor` finds on this host; changes nothing. Raises DriverError, TransportError and OutcomeLost."""
    access = access or Access()
    with _installed(host):
        match substrate:
            case "host":
                from executors.host.examine import examine as of_host

                with closing(_transport(host, access)) as transport:
                    return of_host(transport, _root(host), host.supervisor, access.clock)
            case "docker":
                from executors.docker.examine import examine as of_engine

                make, transport = _engine(host, access)
                with closing(transport):
                    return of_engine(make, access.clock)
            case "qemu":
                from executors.libvirt.connection import Connection
                from executors.libvirt.examine import examine as of_libvirt

                settings, uri, transport = _libvirt(host, access)
                with closing(transport):
                    connection = Connection(f"host/{host.name}", uri, access.clock, settings.timeout / 1000)
                    return of_libvirt(connection, settings.pool, settings.pool_path)
            case _:
                raise _unknown(host, substrate)


def foreign(host: Host, substrate: Substrate, name: str, access: Access | None = None) -> Foreign:
    """A container or a systemd unit that fleetctl did not make. Raises NotThere, DriverError, TransportError."""
    access = access or Access()
    with _installed(host):
        if substrate == "docker":
            from executors.docker.foreign import look as look_at_container

            make, transport = _engine(host, access)
            with closing(transport):
                return look_at_container(make, host.name, name)
        from executors.host.foreign import look as look_at_unit

        with closing(_transport(host, access)) as transport:
            return look_at_unit(transport, host.name, name)


def image_digest(host: Host, reference: str, access: Access | None = None) -> str:
    """The digest that an image's NAME:TAG has in its registry now, asked through a host's engine. Raises DriverError."""
    with _installed(host):
        from executors.docker.images import digest_of_tag

        make, transport = _engine(host, access or Access())
        with closing(transport), closing(make()) as api:
            return digest_of_tag(api, reference)


def _root(host: Host) -> str:
    from executors.host.layout import DEFAULT_ROOT

    if host.root is None:
        return DEFAULT_ROOT
    return host.root if host.ssh is not None else str(Path(host.root).absolute())


def _transport(host: Host, access: Access) -> Transport:
    if host.ssh is not None:
        from executors.transports.ssh.transport import SshTransport

        return SshTransport(host, access.ssh)
    from executors.transports.local import LocalTransport

    return LocalTransport()


def _engine(host: Host, access: Access) -> tuple[Callable[[], docker.APIClient], Transport]:
    """How to get the engine's client, and the transport for probes: of an SSH host the same connection."""
    from executors.docker.engine import client

    transport = _transport(host, access)
    return lambda: client(host, transport), transport


def _libvirt(host: Host, access: Access) -> tuple[Libvirt, Callable[[], str], Transport]:
    """Its settings, how to get the URI of its socket, and the transport for probes: of an SSH host the same
    connection carries the socket.
    """
    from executors.libvirt import address

    settings, transport = host.libvirt or Libvirt(), _transport(host, access)
    if host.ssh is None:
        return settings, lambda: address.local(settings.uri), transport
    forwarded = cache(transport.forward_unix)  # type: ignore[attr-defined]  # of an SSH host it is one that can
    socket = address.socket_of(settings.uri)
    return settings, lambda: address.with_socket(settings.uri, str(forwarded(socket))), transport


@contextmanager
def _installed(host: Host) -> Iterator[None]:
    """A driver or transport that needs a library of its own says what to install."""
    try:
        yield
    except ModuleNotFoundError as e:
        missing = (e.name or "").partition(".")[0]
        raise DriverError(
            f"host {host.name} needs the Python module {missing!r}, which is not installed",
            hint=_INSTALL.get(missing, "install fleetctl with all its dependencies"),
        ) from e


def _unknown(host: Host, substrate: str) -> DriverError:
    return DriverError(f"host {host.name}: there is no driver for substrate {substrate!r}")

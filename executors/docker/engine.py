"""A client for one host's Docker engine: by Unix socket, TCP with TLS, or the socket of an SSH host."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from executors.driver import DriverError
from executors.transport import Transport
from manifests.schema.host import Docker, Host

if TYPE_CHECKING:
    from pathlib import Path

    import docker


@runtime_checkable
class UnixForwarder(Protocol):
    """What can make a Unix socket of another host reachable here (an SSH transport)."""

    def forward_unix(self, remote_path: str) -> Path: ...


# Connections kept open to one engine; as many threads talk to it at once.
POOL_SIZE = 16


def client(host: Host, transport: Transport) -> docker.APIClient:
    """Connects and agrees on an API version. Of an SSH host `transport` carries the engine's socket.

    Raises DriverError when the engine does not answer, is too old or too new, or the library is missing.
    """
    try:
        from docker.errors import DockerException
    except ImportError as e:
        raise DriverError("the docker package is not installed", hint="pip install docker") from e
    settings = host.docker or Docker()
    try:
        return _client_class()(
            base_url=_url(host, settings, transport),
            version="auto",
            timeout=settings.timeout // 1000,
            tls=_tls(settings),
            num_pools=POOL_SIZE,
            max_pool_size=POOL_SIZE,
        )
    except DockerException as e:
        raise DriverError(
            f"host/{host.name}: the Docker engine at {settings.url} does not answer: {e}",
            hint=_hint(str(e), settings),
        ) from e


@cache
def _client_class() -> type[docker.APIClient]:
    import docker

    class EngineClient(docker.APIClient):
        """The environment's proxies and CA bundle are for the web: they would stand over the engine's own `tls`."""

        trust_env = property(lambda _self: False, lambda _self, _value: None)

    return EngineClient


def _url(host: Host, settings: Docker, transport: Transport) -> str:
    if host.ssh is None:
        return settings.url
    if not settings.url.startswith("unix://"):
        raise DriverError(
            f"host/{host.name}: docker.url {settings.url} with ssh",
            hint="through SSH the engine's Unix socket is used: write unix://PATH, or leave out ssh",
        )
    assert isinstance(transport, UnixForwarder)
    return f"unix://{transport.forward_unix(settings.url.removeprefix('unix://'))}"


def _tls(settings: Docker) -> docker.tls.TLSConfig | bool:
    import docker.tls

    if settings.tls is None:
        return False
    return docker.tls.TLSConfig(
        client_cert=(settings.tls.cert, settings.tls.key), ca_cert=settings.tls.ca, verify=True
    )


def _hint(why: str, settings: Docker) -> str | None:
    if "Permission denied" in why:
        return "the user that runs fleetctl needs rights on the socket (group docker)"
    if "No such file" in why or "Connection refused" in why:
        return f"start the engine, or set docker.url of the Host document (now {settings.url})"
    if "client version" in why or "Minimum supported API version" in why:
        return "the engine and this client have no API version in common: upgrade the older one"
    return None

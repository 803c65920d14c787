"""Where a libvirt is, and where a guest is: URIs of sockets, and addresses out of what libvirt tells. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

DEFAULT_SOCKET = "/var/run/libvirt/libvirt-sock"


def socket_of(uri: str) -> str:
    """The Unix socket of a libvirt on its own machine."""
    given = parse_qs(urlsplit(uri).query).get("socket")
    return given[0] if given else DEFAULT_SOCKET


def with_socket(uri: str, path: str) -> str:
    """The same libvirt, reached through this socket."""
    return f"qemu+unix://{urlsplit(uri).path}?socket={path}"


def local(uri: str) -> str:
    """The URI as libvirt's client understands it."""
    return uri if "socket=" not in uri or uri.startswith("test:") else with_socket(uri, socket_of(uri))


def routable(interfaces: Mapping[str, Mapping[str, Any]] | None) -> str | None:
    """The address to use among those that libvirt tells: neither loopback nor link-local, IPv4 first.

    Arguments: `interfaces` as `virDomainInterfaceAddresses` gives them.
    """
    found = sorted(_addresses(interfaces or {}), key=lambda a: a.version)
    return str(found[0]) if found else None


def _addresses(
    interfaces: Mapping[str, Mapping[str, Any]],
) -> Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    for interface in interfaces.values():
        for given in interface.get("addrs") or ():
            try:
                address = ipaddress.ip_address(str(given.get("addr")))
            except ValueError:
                continue
            if not (address.is_loopback or address.is_link_local or address.is_unspecified):
                yield address

"""Libvirt's own test hypervisor, `test:///default`, as a place of the conformance suite. It lives in this process."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from executors import registry
from executors.driver import Operation
from executors.libvirt import kept, names
from executors.libvirt.driver import LibvirtDriver
from executors.libvirt.kept import Kept
from executors.transports.local import LocalTransport
from manifests.schema.fleet import Drain, Health, HttpProbe
from manifests.schema.host import Host, Libvirt
from planner.spec import ArtifactPin, NodeSpec
from tests.executors.libvirt import nodes
from tests.executors.libvirt.dry import believed
from tests.executors.places import shell_command

HOST = Host(api_version="fleetctl/v1", kind="Host", name="vm", libvirt=Libvirt(uri="test:///default"))


class Served(BaseHTTPRequestHandler):
    """Every guest's page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class GuestNetwork(LocalTransport):
    """Carries what is meant for a guest to the one server here; the test hypervisor runs no guests."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        del address, port
        return super().connect("127.0.0.1", self._port, timeout_s)


class LibvirtPlace:
    """Domains of the test hypervisor; how often one was started is counted at the binding."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.drivers: list[LibvirtDriver] = []
        # The hypervisor lives as long as somebody is connected to it.
        self.keeper = self.driver()
        self.created: Counter[bool] = Counter()

    def driver(self) -> LibvirtDriver:
        made = cast("LibvirtDriver", registry.driver(HOST, "qemu"))
        made._transport = GuestNetwork(self.server.server_port)
        self.drivers.append(believed(made, self.folder, nodes.spec().pins))
        return made

    def artifact(self) -> tuple[ArtifactPin, str]:
        return nodes.artifact().model_copy(update={"arch": "any"}), str(self.folder / "bytes")

    def spec(self, uid: str, **changes: object) -> NodeSpec:
        changes.pop("files", None)  # what lies on a seed is not read back
        values: dict[str, Any] = {
            "artifact": self.artifact()[0],
            "health": Health(http=HttpProbe(path="/health", port=80)),
            "drain": Drain.model_construct(signal="TERM", timeout=5_000),
            **changes,
        }
        return nodes.spec(**values)

    def kill(self, uid: str) -> None:
        self.raw(uid).destroy()

    def edit(self, uid: str) -> str:
        self.raw(uid).setMemory(128 * 1024)
        return "domain.memory"

    def starts(self, uid: str) -> int:
        del uid  # there is one node
        return self.created[True]

    def data_kept(self, uid: str) -> bool:
        return self.keeper._pool.volume(self.keeper._connection.get(), names.data(uid, "store")) is not None

    def speak(self, uid: str, text: str) -> None:
        raise AssertionError("a domain of the test hypervisor says nothing")

    def command(self, status: int, out: str, err: str) -> tuple[str, ...]:
        return shell_command(status, out, err)

    def cut_off(self, operation: Operation) -> None:
        raise AssertionError("one call to libvirt has no middle")

    def raw(self, uid: str) -> Any:
        return self.keeper._connection.get().lookupByUUIDString(names.domain_uuid(uid))

    def close(self) -> None:
        connection = self.keeper._connection.get()
        for found in connection.listAllDomains(0):
            if found.name().startswith("fleetctl-"):
                if found.isActive():
                    found.destroy()
                found.undefineFlags(kept.flags(kept.asked(found, Kept()), self.keeper._libvirt, retain=True))
        pool = self.keeper._pool
        pool.remove(connection, list(pool.found(connection).volumes))
        for driver in self.drivers:
            driver.close()
        self.server.shutdown()
        self.server.server_close()

"""A copy of the quickstart on ports of its own, so that tests neither meet each other nor a running demo."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.house.sources import ROOT

SOURCE = ROOT / "examples" / "quickstart"
FIRST_PORT = 18080
NODES = 3
PORT_FIRST, PORT_LAST = 14_000, 18_000


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that nobody listens on.

    Below the ranges of the other tests, and begun at another place in each process: tests in two processes look at
    the same time, and use what they found only later.
    """
    firsts = range(PORT_FIRST, PORT_LAST - count, count)
    turn = os.getpid() * 7 % len(firsts)
    for first in [*firsts[turn:], *firsts[:turn]]:
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    probe = stack.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def copy_quickstart(target: Path, first_port: int) -> Path:
    """Copies the example without its state and moves its three ports."""
    folder = target / "quickstart"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns(".fleetctl", "__pycache__"))
    for name in ("fleet.yaml", "demo.sh"):
        path = folder / name
        text = path.read_text(encoding="utf-8")
        for index in range(NODES):
            text = text.replace(str(FIRST_PORT + index), str(first_port + index))
        path.write_text(text, encoding="utf-8")
    return folder


def urls(first_port: int) -> list[str]:
    """Where the three nodes listen."""
    return [f"http://127.0.0.1:{first_port + index}" for index in range(NODES)]


def answering(first_port: int) -> list[int]:
    """The ports on which something accepts connections."""
    found = []
    for port in range(first_port, first_port + NODES):
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found

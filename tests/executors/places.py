"""A place for nodes, as the conformance suite sees it: one per driver and toolbox, and what breaks it from outside."""

from __future__ import annotations

import hashlib
import itertools
import os
import shlex
import shutil
import signal
import socket
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from executors.command import Command, Completed
from executors.driver import Driver, Operation, ProbeTarget
from executors.host import commands
from executors.host.driver import HostDriver
from executors.outcome import Outcome
from executors.simulated.faults import Fault, Trouble
from executors.simulated.world import SimulatedWorld
from executors.transports.local import LocalTransport
from manifests.schema.fleet import Data, Drain, Health, HttpProbe
from manifests.secret import Secret
from planner.observed import NodeState, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin, FileSpec, NodeSpec, SecretUse, fields

SERVER = Path(__file__).with_name("nodes") / "server.py"
SECRETS = {"env:TOKEN": Secret("hunter2 'quoted' \"$HOME\" `id` \\\\n %n\nsecond line")}
KEYED = {"env:TOKEN": "0" * 64}
# Kills the guarded script of a stop once the signal is out: while it waits, or where the node has ended already.
CUT_AFTER_SIGNAL = "nap() { kill -KILL $$; }; end_leftovers() { kill -KILL $$; }"
_numbers = itertools.count(1)


def wait_for(fact: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
    """Waits until the fact holds; fails the test with `what` when it never does."""
    until = time.monotonic() + timeout_s
    while not fact():
        assert time.monotonic() < until, f"never happened: {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Place(Protocol):
    """What the suite needs of a driver's place beside the driver."""

    def driver(self) -> Driver:
        """A driver of its own, as another process would have."""
        ...

    def spec(self, uid: str, **changes: object) -> NodeSpec:
        """A node that serves /health; `version`, `env`, `files`, `exits`, `stubborn` and so on change it."""
        ...

    def artifact(self) -> tuple[ArtifactPin, str]:
        """The pin, and the verified local file."""
        ...

    def kill(self, uid: str) -> None:
        """Ends the node's process from outside."""
        ...

    def edit(self, uid: str) -> str:
        """Changes a managed field by hand; gives the field's name."""
        ...

    def starts(self, uid: str) -> int:
        """How often the node was started, counted by the node itself."""
        ...

    def data_kept(self, uid: str) -> bool: ...

    def speak(self, uid: str, text: str) -> None:
        """Lets the running node say something that ends with this text."""
        ...

    def command(self, status: int, out: str, err: str) -> tuple[str, ...]:
        """A command that says this on both of its outputs and ends with this exit status."""
        ...

    def cut_off(self, operation: Operation) -> None:
        """Lets the effect begin on the host and be killed before it acts."""
        ...

    def close(self) -> None:
        """Leaves nothing running."""
        ...


def operation(
    effect: StepKind,
    uid: str,
    spec: NodeSpec,
    *,
    generation: int = 1,
    epoch: int = 1,
    lineage: str = "lineage-1",
    operation_id: str | None = None,
    attempt: int = 1,
    **more: object,
) -> Operation:
    """An operation with an id of its own, unless one is given."""
    return Operation(
        operation_id=operation_id or f"op-{next(_numbers)}",
        attempt=attempt,
        fleet="f",
        lineage=lineage,
        epoch=epoch,
        node=f"n-{uid}",
        uid=uid,
        generation=generation,
        effect=effect,
        spec=spec,
        fields=fields(spec, KEYED),
        **more,  # type: ignore[arg-type]
    )


def seen(driver: Driver, uid: str) -> ObservedNode | None:
    """The node as observed now."""
    host = driver.observe(frozenset())
    assert host.reachable, host.error
    return next((n for n in host.nodes if n.uid == uid), None)


def shell_command(status: int, out: str, err: str) -> tuple[str, ...]:
    """A command of POSIX sh."""
    return ("sh", "-c", f"echo {shlex.quote(out)}; echo {shlex.quote(err)} >&2; exit {status}")


def speak_over_http(address: str, port: int, text: str) -> None:
    """Asks the node's server to say something."""
    with urllib.request.urlopen(
        f"http://{address}:{port}/say/{urllib.parse.quote(text)}", timeout=10
    ) as answer:
        assert answer.status == 200


class HostPlace:
    """The host driver on this machine, with the tools of one toolbox."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        self.transport = LocalTransport()

    def driver(self) -> HostDriver:
        return HostDriver("h1", LocalTransport(), str(self.root))

    def artifact(self) -> tuple[ArtifactPin, str]:
        digest = f"sha256:{hashlib.sha256(SERVER.read_bytes()).hexdigest()}"
        return ArtifactPin(source=str(SERVER), digest=digest, name="server.py"), str(SERVER)

    def spec(self, uid: str, **changes: object) -> NodeSpec:
        pin, _ = self.artifact()
        env: dict[str, str | SecretUse] = {
            "DATA": f"{self.root}/nodes/{uid}/data",
            "PORT": str(self.port),
            "GREETING": "it's\nme",
            "TOKEN": SecretUse(secret="env:TOKEN"),
        }
        env |= changes.pop("env", {})  # type: ignore[arg-type]
        path = f"{self.root}/artifacts/sha256/{pin.digest.removeprefix('sha256:')}/{pin.name}"
        values: dict[str, object] = {
            "substrate": "host",
            "host": "h1",
            "address": "127.0.0.1",
            "port": self.port,
            "product": "server",
            "version": "1.0.0",
            "artifact": pin,
            "command": (sys.executable, "-S", path),
            "files": (
                FileSpec(path="conf/app.txt", content="one\n"),
                FileSpec(path="conf/key", secret="env:TOKEN", mode="0600"),
            ),
            "data": Data(path="data"),
            "health": Health(http=HttpProbe(path="/health")),
            "drain": Drain.model_construct(signal="TERM", timeout=5_000),
        }
        return NodeSpec.model_validate({**values, **changes, "env": env})

    def process(self, uid: str) -> list[str] | None:
        try:
            words = (self.root / "nodes" / uid / "process").read_text().split()
        except FileNotFoundError:
            return None
        return words or None

    def kill(self, uid: str) -> None:
        words = self.process(uid)
        assert words is not None
        os.kill(int(words[0]), signal.SIGKILL)
        wait_for(lambda: (self.root / "nodes" / uid / "exit").exists(), "the exit is recorded")

    def edit(self, uid: str) -> str:
        (self.root / "nodes" / uid / "conf" / "app.txt").write_text("edited by hand\n")
        return "files.conf/app.txt"

    def starts(self, uid: str) -> int:
        try:
            return (self.root / "nodes" / uid / "data" / "starts").stat().st_size
        except FileNotFoundError:
            return 0

    def data_kept(self, uid: str) -> bool:
        return (self.root / "nodes" / uid / "data" / "starts").exists()

    def speak(self, uid: str, text: str) -> None:
        speak_over_http("127.0.0.1", self.port, text)

    def command(self, status: int, out: str, err: str) -> tuple[str, ...]:
        return shell_command(status, out, err)

    def cut_off(self, operation: Operation) -> None:
        self.run_cut(
            operation,
            "place() { kill -KILL $$; }; verify_artifact() { kill -KILL $$; }; "
            "ask_to_stop() { kill -KILL $$; }; sup_reload() { kill -KILL $$; }; "
            "sup_remove() { kill -KILL $$; }; sup_facts_adopt=1",
        )

    def run_cut(self, operation: Operation, fault: str) -> Completed:
        """Runs the guarded script with some of its functions replaced, right before its last line."""
        driver = self.driver()
        files = driver._files(operation, SECRETS)
        whole = commands.effect(driver._layout, operation, driver._supervisor, SECRETS, files)
        head, _, last = whole.stdin.rstrip(b"\n").rpartition(b"\n")
        return self.transport.run(Command(whole.argv, head + f"\n{fault}\n".encode() + last + b"\n"))

    def close(self) -> None:
        for file in self.root.glob("nodes/*/process"):
            words = file.read_text().split()
            if len(words) == 6 and _start_of(words[0]) == words[1]:
                with suppress(ProcessLookupError):
                    os.kill(int(words[0]), signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)


def _start_of(pid: str) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return None


class SimulatedPlace:
    """The simulated driver in a world without chance."""

    def __init__(self) -> None:
        self.world = SimulatedWorld()

    def driver(self) -> Driver:
        return self.world.driver("h1")

    def artifact(self) -> tuple[ArtifactPin, str]:
        return ArtifactPin(source="/nowhere", digest=f"sha256:{'a' * 64}", name="server"), "/nowhere"

    def spec(self, uid: str, **changes: object) -> NodeSpec:
        env: Mapping[str, str] = changes.pop("env", {})  # type: ignore[assignment]
        version = str(changes.get("version", "1.0.0"))
        if env.get("EXIT"):
            version = "6.6.6"
            self.world.exits_at_once.add(version)
        values: dict[str, object] = {
            "substrate": "host",
            "host": "h1",
            "address": "127.0.0.1",
            "port": 18080,
            "product": "server",
            "artifact": self.artifact()[0],
            "command": ("server",),
            "files": (FileSpec(path="conf/app.txt", content="one\n"),),
            "data": Data(path="data"),
            "health": Health(http=HttpProbe(path="/health")),
        }
        return NodeSpec.model_validate({**values, **changes, "version": version, "env": dict(env)})

    def kill(self, uid: str) -> None:
        self.world.kill(uid)

    def edit(self, uid: str) -> str:
        self.world.edit(uid, "files.conf/app.txt", "0644 sha256:0")
        return "files.conf/app.txt"

    def starts(self, uid: str) -> int:
        return self.world.starts(uid)

    def data_kept(self, uid: str) -> bool:
        return self.world.node(uid).data_kept

    def speak(self, uid: str, text: str) -> None:
        self.world.node(uid).log.append(text)

    def command(self, status: int, out: str, err: str) -> tuple[str, ...]:
        argv = shell_command(status, out, err)
        self.world.answers[argv] = (status, f"{out}\n".encode(), f"{err}\n".encode())
        return argv

    def cut_off(self, operation: Operation) -> None:
        self.world.trouble.append(Trouble(Fault.LOST_MIDDLE))
        self.driver().perform(operation, SECRETS)

    def close(self) -> None:
        """Nothing runs."""


class Node:
    """One node of a place and a driver to act on it: short words for the suite."""

    def __init__(self, place: Place, uid: str) -> None:
        self.place = place
        self.uid = uid
        self.driver = place.driver()
        self.spec = place.spec(uid)
        pin, path = place.artifact()
        self.driver.stage(pin, path)

    def do(self, effect: StepKind, spec: NodeSpec | None = None, **more: object) -> Outcome:
        return self.driver.perform(self.operation(effect, spec, **more), SECRETS)

    def operation(self, effect: StepKind, spec: NodeSpec | None = None, **more: object) -> Operation:
        return operation(effect, self.uid, spec or self.spec, **more)  # type: ignore[arg-type]

    def seen(self) -> ObservedNode:
        node = seen(self.driver, self.uid)
        assert node is not None
        return node

    def run(self) -> None:
        """Creates and starts it, and waits until it serves."""
        assert self.do(StepKind.CREATE).state == "succeeded"
        assert self.do(StepKind.START).state == "succeeded"
        self.serves()

    def serves(self) -> None:
        target = ProbeTarget(self.uid, self.spec, self.seen().instance)
        wait_for(lambda: self.driver.probe(target).state == "passing", "the node serves")

    def ended(self) -> None:
        wait_for(lambda: self.seen().state in (NodeState.EXITED, NodeState.STOPPED), "the node has ended")

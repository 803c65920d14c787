"""A systemd host over SSH as a place for the conformance suite. Nodes are shell scripts: nothing is installed there."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from executors.command import Command
from executors.driver import Driver, Operation
from executors.host import commands
from executors.host.driver import HostDriver
from executors.transport import Transport
from manifests.schema.fleet import Data, Drain, Health, HttpProbe
from planner.spec import ArtifactPin, FileSpec, NodeSpec, SecretUse
from tests.executors.places import SECRETS, shell_command

# A node out of what every host has: busybox's httpd for the probe, shell for the rest.
SERVER = b"""#!/bin/sh
printf x >>"$DATA/starts"
trap 'printf x >>"$DATA/reloads"; cat "$DATA/say" 2>/dev/null' HUP
trap 'echo drained; kill "$child"; exit 0' TERM
[ -z "$STUBBORN" ] || trap '' TERM
if [ -n "$EXIT" ]; then
  echo "this node gives up"
  exit "$EXIT"
fi
mkdir -p "$DATA/www"
echo ok >"$DATA/www/health"
busybox httpd -f -p "127.0.0.1:$PORT" -h "$DATA/www" &
child=$!
echo serving
while kill -0 "$child"; do wait "$child"; done
exit 9
"""
ROOT = "/var/lib/fleetctl"


class SystemdPlace:
    """Nodes as units of one host; `transport` must act as root there."""

    def __init__(self, transport: Transport, port: int) -> None:
        self.transport = transport
        self.port = port
        self.path = Path("/tmp") / f"fleetctl-server-{hashlib.sha256(SERVER).hexdigest()[:12]}.sh"
        self.path.write_bytes(SERVER)
        self.uids: set[str] = set()

    def sh(self, script: str) -> str:
        """Runs a script on the host as root; its output."""
        done = self.transport.run(Command(("sh", "-s"), script.encode()))
        assert done.ok, done.stderr
        return done.stdout.decode()

    def driver(self) -> Driver:
        return HostDriver("h1", self.transport, ROOT, "systemd")

    def artifact(self) -> tuple[ArtifactPin, str]:
        digest = f"sha256:{hashlib.sha256(SERVER).hexdigest()}"
        return ArtifactPin(source=str(self.path), digest=digest, name="server.sh"), str(self.path)

    def spec(self, uid: str, **changes: object) -> NodeSpec:
        self.uids.add(uid)
        pin, _ = self.artifact()
        env: dict[str, str | SecretUse] = {
            "DATA": f"{ROOT}/nodes/{uid}/data",
            "PORT": str(self.port),
            "GREETING": 'it\'s\nme \\ "$HOME" %n',
            "TOKEN": SecretUse(secret="env:TOKEN"),
        }
        env |= changes.pop("env", {})  # type: ignore[arg-type]
        values: dict[str, object] = {
            "substrate": "host",
            "host": "h1",
            "address": "127.0.0.1",
            "port": self.port,
            "product": "server",
            "version": "1.0.0",
            "artifact": pin,
            "command": (
                f"{ROOT}/artifacts/sha256/{pin.digest.removeprefix('sha256:')}/{pin.name}",
                "a $B %c 'd' \"e\"",
            ),
            "files": (
                FileSpec(path="conf/app.txt", content="one\n"),
                FileSpec(path="conf/key", secret="env:TOKEN", mode="0600"),
            ),
            "data": Data(path="data"),
            "health": Health(http=HttpProbe(path="/health")),
            "drain": Drain.model_construct(signal="TERM", timeout=5_000),
        }
        return NodeSpec.model_validate({**values, **changes, "env": env})

    def unit(self, uid: str) -> str:
        return f"fleetctl-{uid}.service"

    def kill(self, uid: str) -> None:
        self.sh(f"systemctl kill -s KILL {self.unit(uid)}")

    def edit(self, uid: str) -> str:
        self.sh(f"echo edited by hand >{ROOT}/nodes/{uid}/conf/app.txt")
        return "files.conf/app.txt"

    def starts(self, uid: str) -> int:
        return int(self.sh(f"cat {ROOT}/nodes/{uid}/data/starts 2>/dev/null | wc -c"))

    def data_kept(self, uid: str) -> bool:
        return self.sh(f"ls {ROOT}/nodes/{uid}/data/starts 2>/dev/null; true") != ""

    def speak(self, uid: str, text: str) -> None:
        self.sh(
            f"echo {shlex.quote(text)} >{ROOT}/nodes/{uid}/data/say; "
            f"systemctl kill -s HUP --kill-who=main {self.unit(uid)}"
        )

    def command(self, status: int, out: str, err: str) -> tuple[str, ...]:
        return shell_command(status, out, err)

    def cut_off(self, operation: Operation) -> None:
        self.run_cut(
            operation,
            "place() { kill -KILL $$; }; verify_artifact() { kill -KILL $$; }; ask_to_stop() { kill -KILL $$; }; "
            "systemd_reload() { kill -KILL $$; }; systemd_remove() { kill -KILL $$; }",
        )

    def run_cut(self, operation: Operation, fault: str) -> None:
        """Runs the guarded script with some of its functions replaced, right before its last line."""
        driver = self.driver()
        assert isinstance(driver, HostDriver)
        files = driver._files(operation, SECRETS)
        whole = commands.effect(driver._layout, operation, driver._supervisor, SECRETS, files)
        head, _, last = whole.stdin.rstrip(b"\n").rpartition(b"\n")
        script = (head + f"\n{fault}\n".encode() + last + b"\n").decode()
        quoted = "'" + script.replace("'", "'\\''") + "'"
        # A shell of its own, so that its death is not taken for the connection's.
        self.transport.run(Command(("sh", "-s"), f"printf '%s' {quoted} | sh -s; true\n".encode()))

    def close(self) -> None:
        for uid in self.uids:
            unit = self.unit(uid)
            self.sh(
                f"systemctl stop {unit} 2>/dev/null; rm -rf /etc/systemd/system/{unit} /etc/systemd/system/{unit}.d "
                f"/etc/systemd/system/multi-user.target.wants/{unit} {ROOT}/nodes/{uid}; systemctl daemon-reload; "
                f"systemctl reset-failed {unit} 2>/dev/null; true"
            )

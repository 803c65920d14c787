"""import of a real container and a real unit: written, read again, and replaced once."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.acceptance.cli import FLEETCTL, Result, free_ports, wait_for
from tests.acceptance.remote.fleet import RUN_TIMEOUT_S, engine, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab
from tests.lab.images import NODE_PORT, node_image
from tests.lab.registry import Registry
from tests.lab.watcher import page

pytestmark = pytest.mark.timeout(600)


def fleetctl(folder: Path, *args: str) -> Result:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLEETCTL_", "PYTEST_", "DOCKER_"))}
    done = subprocess.run(
        [FLEETCTL, *args], cwd=folder, env={**kept, "NO_COLOR": "1", "APP_TOKEN": "t"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def write_host(folder: Path, document: dict[str, object]) -> None:
    (folder / "host.yaml").write_text(yaml.safe_dump({"api_version": "fleetctl/v1", **document}))


def test_a_container_becomes_a_node_by_one_replacement(
    docker_engine: DockerEngine, registry: Registry, tmp_path: Path
) -> None:
    reference = f"{registry.host}/team/foreign:1.0.0"
    registry.push(node_image("1.0.0", env={"UNIQUE": "foreign"}), "team/foreign", "1.0.0")
    port, name = free_ports(1), f"foreign-{tmp_path.name[-8:].strip('_-')}"
    published = f"127.0.0.1:{port}:{NODE_PORT}"
    env = ("-e", "GREETING=by hand", "-e", "APP_TOKEN=hunter2-canary")
    docker_engine.docker("run", "-d", "--name", name, "-p", published, *env, reference)
    write_host(tmp_path, engine("box", docker_engine.url))
    try:
        written = fleetctl(
            tmp_path, "import", f"container/box/{name}", "--fleet", "taken", "--product", "node"
        )
        assert written.code == 0, str(written)
        assert f"{name} becomes node" in written.out and "by one replacement" in written.out
        manifest = (tmp_path / "taken.yaml").read_text()
        assert "hunter2-canary" not in manifest + str(written)
        assert f"{reference}@sha256:" in manifest and f"port: {port}" in manifest
        assert fleetctl(tmp_path, "validate", ".").code == 0
        assert fleetctl(tmp_path, "fmt", "--check", ".").code == 0
        again = fleetctl(tmp_path, "import", f"container/box/{name}", "--fleet", "taken")
        assert again.code == 1 and "is there already" in again.err

        docker_engine.docker("stop", "-t", "1", name)
        applied = fleetctl(tmp_path, "apply", ".", "--auto-approve")
        assert applied.code == 0, str(applied)
        assert wait_for(lambda: page("127.0.0.1", port, "/version", timeout_s=5.0), "the node") == "1.0.0"
        ours = fleetctl(tmp_path, "import", "fleet/taken")
        assert ours.code == 0 and "Nothing is there that could be taken over" in ours.out, str(ours)
    finally:
        fleetctl(tmp_path, "destroy", ".", "--auto-approve")
        docker_engine.docker("rm", "-f", name)


def test_a_unit_is_read_from_what_runs(systemd_hosts: HostLab, tmp_path: Path) -> None:
    script = "#!/bin/sh\nwhile :; do sleep 1; done\n"
    unit = (
        '[Service]\\nEnvironment=MODE=slow\\nEnvironment=\\"WORDS=a b\\"\\n'
        "ExecStart=/bin/sh /usr/local/bin/foreign.sh --mode slow\\n"
    )
    systemd_hosts.exec(
        "h1",
        "cat >/usr/local/bin/foreign.sh <<'EOF'\n" + script + "EOF\n"
        f'printf "{unit}" >/etc/systemd/system/foreign.service\n'
        "systemctl daemon-reload && systemctl start foreign.service",
    )
    systemd_hosts.write_known_hosts(tmp_path / "known_hosts")
    write_host(tmp_path, ssh_host(systemd_hosts, "h1"))
    try:
        written = fleetctl(
            tmp_path,
            "import",
            "unit/h1/foreign",
            "--fleet",
            "taken",
            "--version",
            "1.0.0",
            "--into",
            "new.yaml",
        )
        assert written.code == 0, str(written)
        release, fleet = yaml.safe_load_all((tmp_path / "new.yaml").read_text())
        assert release["artifacts"][0]["digest"] == "sha256:" + hashlib.sha256(script.encode()).hexdigest()
        (group,) = fleet["groups"]
        assert group["process"]["command"][-3:] == ["{{ artifact.path }}", "--mode", "slow"]
        assert group["process"]["env"] == {"MODE": "slow", "WORDS": "a b"}
        assert "systemctl disable --now foreign.service" in written.out
        missing = fleetctl(
            tmp_path, "import", "unit/h1/nothing", "--fleet", "x", "--version", "1.0.0", "-f", "host.yaml"
        )
        assert missing.code == 1 and "has no unit nothing.service" in missing.err
    finally:
        systemd_hosts.exec("h1", "systemctl stop foreign.service; rm -f /etc/systemd/system/foreign.service")

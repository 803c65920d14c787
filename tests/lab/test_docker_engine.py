"""Private engines really run containers, side by side, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab import docker_engine as docker_lab
from tests.lab.docker_engine import DockerEngine
from tests.lab.fixtures import require
from tests.lab.images import load, node_image
from tests.lab.network import Slot, take_slot
from tests.lab.process import alive, run, wait_until
from tests.lab.watcher import page
from tests.lab.workdir import remove_stale

ROOT = Path(__file__).parents[2]
SOON_S = 20.0


def test_engine_serves_a_published_page_and_its_container_answers_signals(
    docker_engine: DockerEngine,
) -> None:
    load(docker_engine, node_image("1.0.0", healthcheck=True), "lab-node:1.0.0")
    docker_engine.docker(
        "run", "--detach", "--name", "lab-web", "--publish", "127.0.0.1::8080", "lab-node:1.0.0"
    )
    try:
        port = int(docker_engine.out("port", "lab-web", "8080/tcp").rpartition(":")[2])
        wait_until(lambda: page("127.0.0.1", port, "/health") == "ok", "the page is served", timeout_s=SOON_S)
        assert page("127.0.0.1", port, "/version") == "1.0.0"
        assert page(docker_engine.address("lab-web"), 8080, "/version") == "1.0.0"
        docker_engine.docker("kill", "--signal", "HUP", "lab-web")
        wait_until(lambda: page("127.0.0.1", port, "/reloads") == "1", "it reloaded", timeout_s=SOON_S)

        def healthy() -> bool:
            return bool(docker_engine.inspect("lab-web")["State"]["Health"]["Status"] == "healthy")

        wait_until(healthy, "its own health check agrees", timeout_s=SOON_S)
        docker_engine.docker("stop", "lab-web")
        assert docker_engine.inspect("lab-web")["State"]["ExitCode"] == 0
    finally:
        docker_engine.docker("rm", "--force", "lab-web")


def test_engine_asks_tcp_clients_for_a_certificate(docker_engine: DockerEngine) -> None:
    certificates = docker_engine.client_certificates
    trusted = [
        "docker",
        "--host",
        docker_engine.tcp_url,
        "--tlsverify",
        "--tlscacert",
        certificates / "ca.pem",
    ]
    own = ["--tlscert", certificates / "cert.pem", "--tlskey", certificates / "key.pem"]
    ask = ["version", "--format", "{{.Server.Version}}"]
    env = {"DOCKER_CONFIG": str(docker_engine.directory / "client"), "DOCKER_HOST": ""}
    assert run([*trusted, *own, *ask], env=env).stdout.strip() == docker_engine.out(*ask).encode()
    assert run([*trusted, *ask], env=env, check=False).returncode != 0


def test_two_engines_run_side_by_side_and_one_stops_alone(docker_engine: DockerEngine) -> None:
    with DockerEngine() as other:
        assert other.slot != docker_engine.slot
        load(other, node_image("2.0.0"), "lab-node:2.0.0")
        other.docker("run", "--detach", "--name", "lab-other", "lab-node:2.0.0")
        assert "lab-other" not in docker_engine.out("ps", "--all")
        bridge, directory, pid = other.slot.bridge, other.directory, other.pid
    assert docker_engine.is_up()
    assert not alive(pid)
    assert not directory.exists()
    assert not Path(f"/sys/class/net/{bridge}").exists()


def test_engine_comes_back_with_its_containers_after_a_halt() -> None:
    require("Docker engine", docker_lab.missing)
    with DockerEngine() as engine:
        load(engine, node_image("1.0.0"), "lab-node:1.0.0")
        created = engine.out("create", "--name", "lab-kept", "lab-node:1.0.0")
        engine.halt()
        assert not engine.is_up()
        engine.start()
        assert engine.inspect("lab-kept")["Id"] == created


def test_engine_dies_with_a_killed_test_process_and_its_network_is_taken_back() -> None:
    """After `kill -9` of whoever started it no engine is left; slot and directory go back with the next start."""
    require("Docker engine", docker_lab.missing)
    program = (
        "import sys; from tests.lab.docker_engine import DockerEngine; engine = DockerEngine().start();"
        "print(engine.pid, engine.slot.number, engine.directory, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
    assert holder.stdout is not None
    pid, number, directory = holder.stdout.readline().split()
    holder.kill()
    holder.communicate()
    wait_until(lambda: not alive(int(pid)), "the orphaned engine ends", timeout_s=SOON_S)
    remove_stale()
    assert not Path(directory).exists()
    taken: list[Slot] = []
    try:
        while number not in [str(slot.number) for slot in taken]:
            taken.append(take_slot())
    finally:
        for slot in taken:
            slot.close()

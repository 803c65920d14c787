"""A node that ends at once explains itself on every kind of place: how it is, how it ended, what it said last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.cli import free_ports, wait_for
from tests.acceptance.remote.fleet import Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab

pytestmark = pytest.mark.timeout(600)


def test_units_and_containers_that_end_say_how_and_their_logs_and_commands_are_reached(
    systemd_hosts: HostLab, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """The canary of each group fails alone; then both are mended, and followed and asked through their places."""
    systemd_hosts.write_known_hosts(tmp_path / "known_hosts")
    hosts = [{**ssh_host(systemd_hosts, "h1"), "supervisor": "systemd"}, engine("box", docker_engine.url)]
    groups = [on_hosts("unit", ["h1"], 9560), in_containers("boxed", ["box"], free_ports(1), 1, restart="no")]
    fleet = Fleet(tmp_path, "ends", hosts, groups, env={"EXIT_AT_START": "3"})
    try:
        failed = fleet.run("apply", ".", "--auto-approve", "--events", "e.ndjson")
        assert failed.code == 4, str(failed)
        evidence = {
            e["node"]: e
            for e in map(json.loads, (tmp_path / "e.ndjson").read_text().splitlines())
            if e["type"] == "node.evidence"
        }
        for node, place in (("unit-0", "h1"), ("boxed-0", "box")):
            assert f"node/ends/{node} failed: " in failed.err, str(failed)
            assert f"on {place}" in failed.err
            assert (evidence[node]["state"], evidence[node]["exit_code"]) == ("exited", 3), failed.err
            assert f"fleetctl logs {node}" in failed.err
        assert "exit status 3" in failed.err, str(failed)
        assert fleet.run("exec", "boxed-0", "--", "true").code == 1

        fleet.want(env={})
        fleet.apply()
        for node, where in (("unit-0", "h1"), ("boxed-0", "box")):
            said = fleet.run("logs", node)
            assert "serves port" in said.out, f"{where}: {said}"
            done = fleet.run("exec", node, "--", "sh", "-c", "echo $GREETING; echo aside >&2; exit 7")
            assert (done.code, done.out, done.err) == (7, "hello\n", "aside\n"), where
    finally:
        fleet.destroy()


def test_containers_that_the_engine_starts_again_and_again_are_mended_and_destroyed(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    """The engine refuses to remove what it is about to start again: each way onwards stops it first."""
    groups = [in_containers("boxed", ["box"], free_ports(2), 2)]
    fleet = Fleet(tmp_path, "loops", [engine("box", docker_engine.url)], groups)

    def break_it() -> None:
        fleet.want(env={"EXIT_AT_START": "3"}, rollout={"auto_revert": False})
        assert fleet.run("apply", ".", "--auto-approve").code == 4
        wait_for(
            lambda: "restarting" in [n["state"] for n in fleet.nodes()], "the engine waits to start it again"
        )

    try:
        break_it()
        fleet.want(env={})
        fleet.apply()
        assert [node["state"] for node in fleet.nodes()] == ["running"] * 2
        break_it()
    finally:
        fleet.destroy()
    assert fleet.nodes() == []

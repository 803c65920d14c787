"""What breaks in the middle of an apply: the truth is told, nothing is guessed, and `recover` settles it.

Each fault strikes while a node drains, so that its stop is under way. All rounds run at once, each with a fleet and
hosts of its own, since most of their time is waiting for deadlines. The nodes count their own starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.acceptance.cli import Result, free_ports, wait_for
from tests.acceptance.remote.conftest import tunnel
from tests.acceptance.remote.fleet import Fleet, engine, in_containers, on_hosts, ssh_host
from tests.lab.docker_engine import DockerEngine
from tests.lab.hosts import HostLab
from tests.lab.relay import Relay
from tests.lab.watcher import page

DRAIN = {"DRAIN_S": "3"}
# Short, since each look at a broken host waits for it; the end of a round has all the time that it needs.
QUICK = {"connect_timeout": "4s"}
BYSTANDER = "h1"
Deed = Callable[[], None]


@dataclass
class Round:
    """One fault: the fleet, its node that is hit (`VICTIM`), how to break and to mend; then what was seen."""

    name: str
    fleet: Fleet
    strike: Deed
    mend: Deed
    applied: Result = field(default_factory=lambda: Result(-1, "", ""))
    planned: Result = field(default_factory=lambda: Result(-1, "", ""))
    again: Result = field(default_factory=lambda: Result(-1, "", ""))
    recovered: Result = field(default_factory=lambda: Result(-1, "", ""))
    boots: list[dict[str, str | None]] = field(default_factory=list)
    starts: dict[str, str | None] = field(default_factory=dict)

    def play(self) -> Round:
        """Applies an upgrade, strikes, reads what is said, mends, recovers."""
        fleet = self.fleet
        fleet.settle()
        fleet.want(version="1.1.0")
        victim = fleet.endpoints[VICTIM]
        process = fleet.start("apply", ".", "--auto-approve")
        try:
            wait_for(lambda: page(*victim, "/health") is None, "the drain to begin", 120.0)
            self.strike()
            struck = fleet.ask("/boot")
            self.applied = fleet.finished(process)
            self.boots = [struck, fleet.ask("/boot")]
            if self.applied.code != 0:
                self.planned = fleet.run("plan", ".")
                self.again = fleet.run("apply", ".", "--auto-approve")
        finally:
            process.kill()
            self.mend()
        self.recovered = fleet.run("recover", ".", "--auto-approve")
        self.starts = fleet.ask("/starts")
        return self


VICTIM = "web-0"


def _host_rounds(hosts: HostLab, relay: Relay, path: Path, stack: ExitStack) -> Iterator[Round]:
    deeds: dict[str, tuple[str, Deed, Deed]] = {
        "paused": ("h2", lambda: hosts.pause("h2"), lambda: hosts.unpause("h2")),
        "packets dropped": ("h3", lambda: hosts.drop("h3", port=22), lambda: hosts.restore("h3")),
        "sshd killed": ("h4", lambda: hosts.kill_sshd("h4"), lambda: hosts.start_sshd("h4")),
        "sshd and commands killed": (
            "h5",
            lambda: hosts.kill_sshd("h5", commands=True),
            lambda: hosts.start_sshd("h5"),
        ),
        "jump host answers late": ("hidden", relay.hold, relay.heal),
    }
    for number, (name, (victim, strike, mend)) in enumerate(deeds.items()):
        folder = path / victim
        folder.mkdir()
        known = hosts.write_known_hosts(folder / "known_hosts")
        document = {**ssh_host(hosts, victim, **QUICK), "supervisor": ("process", "systemd")[number % 2]}
        port = 9200 + 10 * number
        places = {}
        if hosts[victim].via is not None:
            document["ssh"]["jump"] = [_relayed(hosts, relay, known)]
            places[VICTIM] = stack.enter_context(tunnel(hosts, victim, port, folder / "tunnel.log"))
        documents = [document, ssh_host(hosts, BYSTANDER, **QUICK)]
        groups = [on_hosts("web", [victim, BYSTANDER], port)]
        fleet = Fleet(folder, f"fault-{number}", documents, groups, env=DRAIN, places=places)
        yield Round(name, fleet, strike, mend)


def _relayed(hosts: HostLab, relay: Relay, known: Path) -> str:
    """The jump host as reached through a relay, under whose address its key is made known as well."""
    jump = hosts["h1"]
    address, port = relay.add((jump.address, jump.port))
    with known.open("a") as file:
        file.write(f"[{address}]:{port} {jump.known_hosts[0].partition(' ')[2]}\n")
    return f"{jump.user}@{address}:{port}"


def _engine_round(docker: DockerEngine, relay: Relay, path: Path) -> Round:
    address, port = relay.add(("127.0.0.1", docker.tcp_port))
    files = docker.client_certificates
    document = engine("far", f"tcp://{address}:{port}")
    tls = {name: str(files / f"{name}.pem") for name in ("ca", "cert", "key")}
    document["docker"] |= {"tls": tls, "timeout": "4s"}
    groups = [in_containers("web", ["far"], free_ports(2), 2)]
    return Round(
        "engine silent",
        Fleet(path / "engine", "fault-engine", [document], groups, env=DRAIN),
        relay.blackhole,
        relay.heal,
    )


@pytest.fixture(scope="module")
def rounds(
    systemd_hosts: HostLab, docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Round]]:
    """Every fault, struck and recovered from."""
    path = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        lines = [stack.enter_context(Relay()) for _ in range(2)]
        all_rounds = [
            *_host_rounds(systemd_hosts, lines[0], path, stack),
            _engine_round(docker_engine, lines[1], path),
        ]
        try:
            with ThreadPoolExecutor(len(all_rounds)) as pool:
                yield {r.name: r for r in pool.map(Round.play, all_rounds)}
        finally:
            with ThreadPoolExecutor(len(all_rounds)) as pool:
                list(pool.map(_end, all_rounds))


def _end(played: Round) -> None:
    """Destroys the fleet, patiently."""
    for host in played.fleet.hosts:
        host.get("ssh", {}).pop("connect_timeout", None)
        host.get("docker", {}).pop("timeout", None)
    played.fleet.want().destroy()


NAMES = (
    "paused",
    "packets dropped",
    "sshd killed",
    "sshd and commands killed",
    "jump host answers late",
    "engine silent",
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_in_the_middle_is_told_as_unknown_and_recover_settles_it(
    rounds: dict[str, Round], name: str
) -> None:
    played = rounds[name]
    assert played.applied.code == 5, str(played.applied)
    assert VICTIM in played.applied.err and "fleetctl recover" in played.applied.err
    assert "was cut off" in played.planned.out + played.planned.err, "plan still prints, and says so"
    assert played.planned.code in (0, 3), str(played.planned)
    assert played.again.code == 5, str(played.again)
    assert played.recovered.code == 0, str(played.recovered)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_touches_no_other_node_and_starts_nothing_twice(rounds: dict[str, Round], name: str) -> None:
    played = rounds[name]
    before, after = ({n: b for n, b in boots.items() if n != VICTIM} for boots in played.boots)
    assert before == after and None not in after.values()
    assert played.starts == {"web-0": "2", "web-1": "2"}, "one start for each release"
    assert set(played.fleet.ask("/version").values()) == {"1.1.0"}
    played.fleet.unchanged()

"""SSH beside its floor and its peers, whole processes side by side: `python -m tests.bench.ssh [--runs N] [--quick]`.

50 hosts are 50 loopback addresses of one sshd, whose user has /bin/sh. pyinfra and Ansible come from a
virtual environment of their own, which is made when it is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Sample, process
from tests.bench.table import Table
from tests.lab.process import free_port
from tests.lab.relay import Relay
from tests.lab.sshd import LoopbackSshd, missing

RUNS = 3
HOSTS = 50
NODES = 4
FILE_B = 20_000
COMMAND = "echo done"
DELAY_S = 0.025
FLOOR_RATIO = 1.3
OBSERVE_RATIO = 1.2
PEERS = Path(os.environ.get("FLEETCTL_LAB_CACHE", Path.home() / ".cache" / "fleetctl-lab")) / "bench-peers"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ssh", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="measured runs of each contestant")
    parser.add_argument("--quick", action="store_true", help="without the peers")
    chosen = parser.parse_args(arguments)
    table = Table()
    measure(table, chosen.runs, peers=not chosen.quick)
    print(table)
    return int(table.broken)


def measure(table: Table, runs: int = RUNS, *, peers: bool = True) -> None:
    """Adds the rows, or a note that says why there are none."""
    if reason := missing():
        table.note(f"SSH: not measured: {reason}")
        return
    with LoopbackSshd(options={"LogLevel": "ERROR"}) as sshd:
        targets = [(address, sshd.port) for address in sshd.addresses(HOSTS)]
        _compare(table, "loopback", sshd, targets, runs, peers=peers)
        _observation(table, sshd, targets, runs)
        with _delayed(targets) as delayed:
            _compare(table, "50 ms round trip", sshd, delayed, runs, peers=peers)
        _round_trips(table, sshd, targets, peers=peers)


@contextlib.contextmanager
def _delayed(targets: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """The same hosts behind a relay in a process of its own, so that its CPU is not counted with the contestants'."""
    # The server has its own port on every loopback address, so the relay needs another.
    relayed = free_port()
    delayed = [(address.replace("127.77.", "127.78."), relayed) for address, _ in targets]
    pairs = [f"{a}:{p}={b}:{q}" for (a, p), (b, q) in zip(delayed, targets, strict=True)]
    relay = subprocess.Popen(
        [sys.executable, "-m", "tests.lab.relay", "--delay-ms", str(DELAY_S * 1000), *pairs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert relay.stdout is not None
    try:
        while (line := relay.stdout.readline().strip()) != "ready":
            assert line, "the relay ended"
        yield delayed
    finally:
        relay.terminate()
        relay.wait()


def _compare(
    table: Table, where: str, sshd: LoopbackSshd, hosts: list[tuple[str, int]], runs: int, *, peers: bool
) -> None:
    folder = sshd.directory / where.replace(" ", "-")
    folder.mkdir(exist_ok=True)
    ours, raw = _paired("fleetctl", "raw", folder, sshd, hosts, runs)
    table.add(
        f"{HOSTS} hosts, a file and a command, {where}: fleetctl",
        _figures(ours),
        f"{ours.wall_s / raw.wall_s:.2f} x raw paramiko",
        f"at most {FLOOR_RATIO} x",
        ours.wall_s <= FLOOR_RATIO * raw.wall_s,
    )
    table.add(f"  raw paramiko, {where}", _figures(raw))
    for name in ("pyinfra", "ansible") if peers else ():
        peer = process(
            _peer(name, folder, sshd, hosts),
            cwd=folder,
            env=_peer_env(folder),
            runs=max(1, runs - 2),
            warmups=0,
        )
        if peer.code != 0:
            table.note(f"{name} ended with {peer.code}: {(peer.errors or peer.output)[-400:]}")
        table.add(
            f"  {name}, {where}",
            _figures(peer),
            f"{peer.wall_s / ours.wall_s:.1f} x fleetctl",
            "fleetctl ahead",
            ours.wall_s < peer.wall_s,
        )


def _observation(table: Table, sshd: LoopbackSshd, hosts: list[tuple[str, int]], runs: int) -> None:
    """No change: one exec per host after authentication, for four nodes each."""
    folder = sshd.directory / "observe"
    folder.mkdir(exist_ok=True)
    made = process(_contestant("prepare", folder, sshd, hosts), runs=1, warmups=0)
    assert made.code == 0, made.errors
    ours, raw = _paired("observe", "connect", folder, sshd, hosts, runs)
    table.add(
        f"{HOSTS} hosts, nothing to change: fleetctl",
        _figures(ours),
        f"{ours.wall_s / raw.wall_s:.2f} x raw connect and one exec",
        f"at most {OBSERVE_RATIO} x",
        ours.wall_s <= OBSERVE_RATIO * raw.wall_s,
    )


def _round_trips(table: Table, sshd: LoopbackSshd, hosts: list[tuple[str, int]], *, peers: bool) -> None:
    """Counted once by a relay without delay, on five hosts."""
    folder = sshd.directory / "trips"
    folder.mkdir(exist_ok=True)
    few = hosts[:5]
    contestants = ["fleetctl", "raw", *(("pyinfra", "ansible") if peers else ())]
    counted = []
    for name in contestants:
        with Relay() as relay:
            port = free_port()
            through = [relay.add(h, listen=(h[0].replace("127.77.", "127.79."), port)) for h in few]
            argv = _peer(name, folder, sshd, through) if name in ("pyinfra", "ansible") else None
            argv = argv or _contestant(name, folder, sshd, through)
            subprocess.run(
                argv, cwd=folder, env={**os.environ, **_peer_env(folder)}, capture_output=True, check=False
            )
            counted.append(f"{name} {relay.round_trips / len(few):.0f}")
    table.add("  round trips per host", ", ".join(counted))


def _paired(
    one: str, other: str, folder: Path, sshd: LoopbackSshd, hosts: list[tuple[str, int]], runs: int
) -> tuple[Sample, Sample]:
    """Both contestants in turn, so that a machine that drifts drifts for both; the medians."""
    samples: dict[str, list[Sample]] = {one: [], other: []}
    for turn in range(runs + 1):
        for name in (one, other):
            sample = process(_contestant(name, folder, sshd, hosts, turn), runs=1, warmups=0)
            assert sample.code == 0, sample.errors
            if turn:
                samples[name].append(sample)
    middle = {n: sorted(s, key=lambda x: x.wall_s)[len(s) // 2] for n, s in samples.items()}
    return middle[one], middle[other]


def _contestant(
    name: str, folder: Path, sshd: LoopbackSshd, hosts: list[tuple[str, int]], turn: int = 0
) -> list[str]:
    data = folder / "payload"
    if not data.exists():
        data.write_bytes(os.urandom(FILE_B))
    job = {
        "hosts": hosts,
        "user": sshd.user,
        "key": str(sshd.key),
        "known_hosts": str(_known(folder, sshd, hosts)),
        "file": str(data),
        "command": COMMAND,
        "root": str(sshd.accounts[0].home / "bench"),
        "threads": HOSTS,
        "run": f"{folder.name}-{name}-{turn}",
        "nodes": NODES,
    }
    path = folder / f"{name}-{turn}.json"
    path.write_text(json.dumps(job))
    return [sys.executable, "-m", "tests.bench.ssh_work", name, str(path)]


def _known(folder: Path, sshd: LoopbackSshd, hosts: list[tuple[str, int]]) -> Path:
    lines = sshd.known_hosts_lines(*(address for address, _ in hosts))
    path = folder / "known_hosts"
    path.write_text("".join(line.replace(f"]:{sshd.port} ", f"]:{hosts[0][1]} ") + "\n" for line in lines))
    return path


def _figures(sample: Sample) -> str:
    return (
        f"{sample.wall_s:.2f} s, {1000 * sample.cpu_s / HOSTS:.0f} ms CPU per host, {sample.peak_mib:.0f} MiB"
    )


def _peer_env(folder: Path) -> dict[str, str]:
    return {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
        "PYINFRA_PROGRESS": "off",
        "HOME": str(folder),
    }


def _peer(name: str, folder: Path, sshd: LoopbackSshd, hosts: list[tuple[str, int]]) -> list[str]:
    if not (PEERS / "bin" / "ansible-playbook").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        subprocess.run([str(PEERS / "bin/pip"), "install", "-q", "pyinfra", "ansible-core"], check=True)
    known = _known(folder, sshd, hosts)
    target = sshd.accounts[0].home / "bench"
    target.mkdir(exist_ok=True)
    target.chmod(0o777)
    if name == "pyinfra":
        inventory = [
            (address, {"ssh_port": port, "ssh_user": sshd.user, "ssh_key": str(sshd.key),
                       "ssh_known_hosts_file": str(known), "name": address})
            for address, port in hosts
        ]  # fmt: skip
        (folder / "inventory.py").write_text(f"hosts = {inventory!r}\n")
        (folder / "deploy.py").write_text(
            textwrap.dedent(f"""
            import time
            from pyinfra import host
            from pyinfra.operations import files, server
            stamp = {os.urandom(4).hex()!r}
            files.put(src={str(folder / "payload")!r}, dest={str(target)!r} + f"/pyinfra-{{host.name}}-{{stamp}}")
            server.shell(commands=[{COMMAND!r}])
            """)
        )
        return [str(PEERS / "bin/pyinfra"), "-y", "inventory.py", "deploy.py"]
    (folder / "ansible.cfg").write_text(
        "[defaults]\nforks = 50\ngathering = explicit\nhost_key_checking = True\n[ssh_connection]\npipelining = True\n"
        f"ssh_args = -F /dev/null -o UserKnownHostsFile={known} -o ControlMaster=auto -o ControlPersist=60s\n"
        f"control_path_dir = {folder}/cp\n"
    )
    lines = [
        f"{address} ansible_port={port} ansible_user={sshd.user} ansible_ssh_private_key_file={sshd.key} "
        f"ansible_python_interpreter=/usr/bin/python3"
        for address, port in hosts
    ]
    (folder / "inventory.ini").write_text("\n".join(lines) + "\n")
    (folder / "play.yml").write_text(
        textwrap.dedent(f"""
        - hosts: all
          gather_facts: false
          tasks:
            - copy: {{src: {folder / "payload"}, dest: "{target}/ansible-{{{{ inventory_hostname }}}}-{os.urandom(4).hex()}"}}
            - command: {COMMAND}
        """)
    )
    return [str(PEERS / "bin/ansible-playbook"), "-i", "inventory.ini", "play.yml"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Loopback servers are hosts for OpenSSH clients, with keys, certificates and faults."""

from __future__ import annotations

import subprocess

import pytest

from tests.lab import sshd as sshd_lab
from tests.lab.fixtures import require
from tests.lab.process import LabError, alive, run, wait_until
from tests.lab.sshd import LoopbackSshd

SOON_S = 20.0


def test_sshd_is_a_host_on_every_loopback_address(loopback_sshd: LoopbackSshd) -> None:
    first, last = loopback_sshd.addresses(300)[0], loopback_sshd.addresses(300)[-1]
    other = loopback_sshd.accounts[1]
    assert loopback_sshd.ssh("id -un", address=first) == f"{loopback_sshd.user}\n"
    assert loopback_sshd.ssh("id -u; echo $SHELL", address=last, user=other.name) == f"{other.uid}\n/bin/sh\n"


def test_sshd_does_not_know_root_unless_asked_to(loopback_sshd: LoopbackSshd) -> None:
    with pytest.raises(LabError, match="Permission denied"):
        loopback_sshd.ssh("id", user="root")


def test_sshd_with_new_host_keys_is_not_the_trusted_one() -> None:
    require("OpenSSH server", sshd_lab.missing)
    with LoopbackSshd(host_key_kinds=("ed25519", "ecdsa")) as server:
        before = server.ssh_argv("true")
        assert run(before).returncode == 0
        trusted = (server.directory / "known_hosts").read_bytes()
        server.rotate_host_keys()
        (server.directory / "known_hosts").write_bytes(trusted)
        assert b"REMOTE HOST IDENTIFICATION HAS CHANGED" in run(before, check=False).stderr
        assert server.ssh("echo known again") == "known again\n"


def test_sshd_takes_certificates_of_its_authorities() -> None:
    require("OpenSSH server", sshd_lab.missing)
    with LoopbackSshd(certificates=True) as server:
        key = server.user_certificate(server.user)
        argv = server.ssh_argv("echo certified")
        argv[argv.index(str(server.key))] = str(key)
        lines = server.certificate_authority_lines()
        (server.directory / "known_hosts").write_text("".join(f"{line}\n" for line in lines))
        assert run(argv).stdout == b"certified\n"


def test_sshd_sessions_die_in_the_middle_of_a_command_and_the_command_may_live_on() -> None:
    require("OpenSSH server", sshd_lab.missing)
    with LoopbackSshd() as server:
        marker = server.accounts[0].home / "pid"
        client = subprocess.Popen(server.ssh_argv("echo $$ >pid.new; mv pid.new pid; exec sleep 60"))
        wait_until(marker.exists, "the command runs", timeout_s=SOON_S)
        server.kill_connections()
        assert client.wait(timeout=SOON_S) == 255
        command = int(marker.read_text())
        assert alive(command)
        assert server.ssh("echo the listener lives") == "the listener lives\n"
    wait_until(lambda: not alive(command), "its user's processes end with the server", timeout_s=SOON_S)

"""Whole hosts run systemd, let their users in, and suffer each fault that is asked for."""

from __future__ import annotations

import subprocess

import pytest

from tests.lab.hosts import SUDO_PASSWORD, USER_WITH_PASSWORD, HostLab
from tests.lab.process import LabError, answers, wait_until
from tests.lab.watcher import page

SOON_S = 20.0
SILENCE_S = 0.5


def test_hosts_run_systemd_and_let_their_user_become_root(systemd_hosts: HostLab) -> None:
    for name in systemd_hosts.hosts:
        said = systemd_hosts.ssh(name, "systemctl is-system-running; id -un; sudo -n id -un; hostname")
        assert said.split() == ["running", "ops", "root", name]


def test_host_asks_its_second_user_for_the_sudo_password(systemd_hosts: HostLab) -> None:
    with pytest.raises(LabError, match="password is required"):
        systemd_hosts.ssh("h2", "sudo -n id -un", user=USER_WITH_PASSWORD)
    given = f"{SUDO_PASSWORD}\n".encode()
    said = systemd_hosts.ssh("h2", "sudo -S -p '' id -un", user=USER_WITH_PASSWORD, input_bytes=given)
    assert said == "root\n"


def test_hidden_host_answers_only_through_its_jump_host(systemd_hosts: HostLab) -> None:
    assert not answers(systemd_hosts["hidden"].address, 22)
    assert systemd_hosts.ssh("hidden", "hostname") == "hidden\n"


def test_paused_host_holds_connections_and_goes_on_where_it_was(systemd_hosts: HostLab) -> None:
    client = subprocess.Popen(
        systemd_hosts.ssh_argv("h3", "read go; echo $go"), stdin=-1, stdout=-1, text=True
    )
    wait_until(
        lambda: "sh -c read go" in systemd_hosts.exec("h3", "ps ax"), "the command runs", timeout_s=SOON_S
    )
    systemd_hosts.pause("h3")
    try:
        assert client.stdin is not None
        client.stdin.write("on\n")
        client.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(timeout=SILENCE_S)
    finally:
        systemd_hosts.unpause("h3")
    assert client.communicate(timeout=SOON_S)[0] == "on\n"


def test_dropped_packets_cut_one_host_or_one_port_of_it(systemd_hosts: HostLab) -> None:
    address = systemd_hosts["h4"].address
    systemd_hosts.exec("h4", "mkdir -p /tmp/w; echo up >/tmp/w/health; busybox httpd -p 8080 -h /tmp/w")
    try:
        systemd_hosts.drop("h4", port=22)
        assert not answers(address, 22, timeout_s=SILENCE_S)
        assert page(address, 8080, "/health") == "up"
        systemd_hosts.drop("h4")
        assert not answers(address, 8080, timeout_s=SILENCE_S)
        assert answers(systemd_hosts["h5"].address, 22)
    finally:
        systemd_hosts.restore("h4")
    assert systemd_hosts.ssh("h4", "echo back") == "back\n"


def test_answers_can_be_lost_after_the_command_was_carried_out(systemd_hosts: HostLab) -> None:
    """Only outgoing packets dropped: what the client sends still arrives and acts."""
    client = subprocess.Popen(
        systemd_hosts.ssh_argv("h4", "read go; echo done >/tmp/effect; echo told"), stdin=-1, stdout=-1
    )
    try:
        wait_until(
            lambda: "sh -c read go" in systemd_hosts.exec("h4", "ps ax"), "the command runs", timeout_s=SOON_S
        )
        systemd_hosts.drop("h4", incoming=False)
        assert client.stdin is not None
        client.stdin.write(b"go\n")
        client.stdin.flush()
        acted = "test -e /tmp/effect && echo yes || echo no"
        wait_until(lambda: systemd_hosts.exec("h4", acted) == "yes", "the effect happens", timeout_s=SOON_S)
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(timeout=SILENCE_S)
    finally:
        client.kill()
        client.communicate()
        systemd_hosts.restore("h4")
        systemd_hosts.exec("h4", "rm -f /tmp/effect")


def test_killed_sshd_ends_the_session_and_spares_or_takes_the_command(systemd_hosts: HostLab) -> None:
    for commands, survives in ((False, True), (True, False)):
        client = subprocess.Popen(systemd_hosts.ssh_argv("h5", "sleep 61.5; true"), stderr=subprocess.DEVNULL)
        running = "ps ax | grep -c '[s]leep 61.5$' || true"
        wait_until(lambda: systemd_hosts.exec("h5", running) == "1", "the command runs", timeout_s=SOON_S)  # noqa: B023
        systemd_hosts.kill_sshd("h5", commands=commands)
        assert client.wait(timeout=SOON_S) == 255
        assert not answers(systemd_hosts["h5"].address, 22)
        assert systemd_hosts.exec("h5", running) == ("1" if survives else "0")
        systemd_hosts.exec("h5", "pkill -x sleep || true")
        systemd_hosts.start_sshd("h5")
    assert systemd_hosts.ssh("h5", "echo back") == "back\n"


def test_host_without_power_comes_back_at_its_address_with_its_disk(systemd_hosts: HostLab) -> None:
    systemd_hosts.ssh("h5", "echo kept >data")
    systemd_hosts.power_off("h5")
    assert not answers(systemd_hosts["h5"].address, 22)
    systemd_hosts.power_on("h5")
    assert systemd_hosts.ssh("h5", "cat data") == "kept\n"

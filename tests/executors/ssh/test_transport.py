"""SshTransport against a server that misbehaves, and against a real sshd."""

from __future__ import annotations

import base64
import io
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from executors.clock import SystemClock
from executors.command import OUTPUT_MAX_B, UNBOUNDED_S, Command
from executors.transport import OutcomeLost, TransportError
from executors.transports.ssh.connection import parse_jump
from executors.transports.ssh.errors import AuthenticationError, BecomeError, HostKeyChanged, HostKeyUnknown
from executors.transports.ssh.transport import SshSettings, SshTransport
from manifests.digest import sha256
from manifests.schema.base import SecretValue
from manifests.schema.host import Become, Host, Ssh
from manifests.secret import Secret
from tests.executors.ssh.server import Server
from tests.lab.process import missing_programs, run
from tests.lab.sshd import LoopbackSshd, missing


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    return path


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def _resolve(ref: str) -> Secret:
    assert ref == "env:SUDO"
    return Secret("right")


def _transport(
    server: Server, key: Path, *, accept: bool = False, known: str | None = None, **ssh: object
) -> SshTransport:
    known_hosts = key.parent / "known_hosts"
    if not known_hosts.exists():
        known_hosts.write_text(server.known_hosts_line() if known is None else known)
    host = Host(
        api_version="fleetctl/v1",
        kind="Host",
        name="h",
        ssh=Ssh(
            address=server.address,
            port=server.port,
            user="u",
            **({"identity_file": str(key)} if key.exists() else {}),  # type: ignore[arg-type]
            known_hosts=str(known_hosts),
            config_file="/dev/null",
            **ssh,  # type: ignore[arg-type]
        ),
    )
    return SshTransport(host, SshSettings(SystemClock(), _resolve, accept_new_host_keys=accept))


def test_both_streams_are_drained_whichever_comes_first(server: Server, key: Path) -> None:
    """S1: more than a window on stderr before anything on stdout, then the same the other way round."""
    transport = _transport(server, key)
    for first, second in (("&2", "&1"), ("&1", "&2")):
        script = f"head -c 5242880 /dev/zero >{first}; head -c 5242880 /dev/zero >{second}"
        done = transport.run(Command(("/bin/sh", "-c", script), timeout_s=60))
        assert done.status == 0
        assert OUTPUT_MAX_B <= len(done.stdout) < OUTPUT_MAX_B + 100
        assert b"bytes left out" in done.stderr
    transport.close()


def test_input_larger_than_a_window_comes_back_whole(server: Server, key: Path) -> None:
    data = bytes(range(256)) * 12_000
    assert _transport(server, key).run(Command(("cat",), stdin=data)).stdout == data


@pytest.mark.parametrize("fault", ["drop_after_output", "no_status", "exit_signal"])
def test_a_missing_exit_status_is_a_lost_outcome_with_what_was_printed(
    fault: str, server: Server, key: Path
) -> None:
    """S2: never success, and never `failed, safe to retry`."""
    setattr(server.faults, fault, True)
    with pytest.raises(OutcomeLost) as lost:
        _transport(server, key).run(Command(("/bin/sh", "-c", "echo partial")))
    assert lost.value.stdout == b"partial\n"


def test_status_255_is_a_status(server: Server, key: Path) -> None:
    assert _transport(server, key).run(Command(("/bin/sh", "-c", "exit 255"))).status == 255


def test_the_deadline_covers_the_whole_command(server: Server, key: Path) -> None:
    with pytest.raises(OutcomeLost, match=r"no exit status within 0\.3 s") as lost:
        _transport(server, key).run(Command(("/bin/sh", "-c", "echo begun; sleep 20"), timeout_s=0.3))
    assert lost.value.stdout == b"begun\n"


def test_a_background_child_that_keeps_the_streams_open_does_not_keep_us(server: Server, key: Path) -> None:
    """A real sshd reports the status while the child still holds stdout; so does this one when told to."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with LoopbackSshd() as sshd:
        transport = _real(sshd)
        done = transport.run(Command(("/bin/sh", "-c", "echo done; sleep 7 &"), timeout_s=6))
        assert (done.status, done.stdout) == (0, b"done\n")
        transport.close()


def test_a_busy_server_is_tried_again_before_anything_ran(server: Server, key: Path) -> None:
    """S6: a hang-up before the banner means busy, not down."""
    server.faults.drop_before_banner = 2
    assert _transport(server, key).run(Command(("echo", "hi"))).stdout == b"hi\n"
    assert server.connections == 3
    assert len(server.commands) == 1


def test_an_unknown_host_key_is_an_error_that_shows_the_line_to_add(server: Server, key: Path) -> None:
    with pytest.raises(HostKeyUnknown) as refused:
        _transport(server, key, known="").run(Command(("true",)))
    assert "SHA256:" in refused.value.message
    assert server.known_hosts_line().strip() in (refused.value.hint or "")
    assert server.commands == []


def test_a_changed_host_key_is_another_error(server: Server, key: Path) -> None:
    other = Server()
    line = other.known_hosts_line().replace(str(other.port), str(server.port))
    other.close()
    with pytest.raises(HostKeyChanged, match="known_hosts:1"):
        _transport(server, key, accept=True, known=line).run(Command(("true",)))


def test_accepting_new_host_keys_appends_one_line_and_keeps_the_rest(server: Server, key: Path) -> None:
    before = "# mine\nweird line\n"
    transport = _transport(server, key, accept=True, known=before)
    assert transport.run(Command(("true",))).ok
    assert (key.parent / "known_hosts").read_text() == before + server.known_hosts_line()


def test_an_encrypted_key_is_asked_for_and_without_an_answer_it_is_named(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "locked"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path), password="word")
    transport = _transport(server, path)
    with pytest.raises(AuthenticationError, match="encrypted, and nobody is there"):
        transport.run(Command(("true",)))
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return "word"

    settings = SshSettings(SystemClock(), _resolve, ask=ask)
    assert SshTransport(transport._host, settings).run(Command(("true",))).ok
    assert asked == [f"passphrase for {path}"]


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_every_kind_of_key_logs_in_from_a_file_and_from_the_agent(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RSA keys sign by SHA-2; in the second round the key is nowhere but in a real ssh-agent."""
    if reason := missing_programs("ssh-keygen", "ssh-agent", "ssh-add"):
        pytest.skip(reason)
    key = tmp_path / "key"
    run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)])
    public = base64.b64decode((tmp_path / "key.pub").read_text().split()[1])
    server = Server(accepts={public})
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    try:
        transport = _transport(server, key)
        assert transport.run(Command(("true",))).ok
        transport.close()
        with subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL
        ) as agent:
            try:
                while not (tmp_path / "agent").exists():
                    assert agent.poll() is None
                    time.sleep(0.02)
                monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
                run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": str(tmp_path / "agent")})
                key.unlink()
                transport = _transport(server, key)
                assert transport.run(Command(("true",))).ok
                transport.close()
            finally:
                agent.terminate()
    finally:
        server.close()


def test_a_key_that_nobody_accepts_is_named_with_what_to_do(server: Server, key: Path) -> None:
    server.accepts = set()
    with pytest.raises(AuthenticationError, match=f"no key was accepted for user u.*{key}") as refused:
        _transport(server, key).run(Command(("true",)))
    assert "authorized_keys" in (refused.value.hint or "")
    assert server.commands == []


def test_an_ipv6_literal_is_an_address_and_has_its_brackets_in_known_hosts(tmp_path: Path) -> None:
    try:
        server = Server(address="::1")
    except OSError as e:
        pytest.skip(f"no IPv6 on this machine: {e}")
    path = tmp_path / "key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    try:
        transport = _transport(server, path)
        assert transport.run(Command(("echo", "six"))).stdout == b"six\n"
        transport.close()
    finally:
        server.close()


SUDO = {
    "no password needed": ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', None, None),
    "right password": (
        (
            'p=; while [ "$1" != -- ]; do [ "$1" = -p ] && p=$2; shift; done; shift; '
            'printf %s "$p" >&2; read -r w; [ "$w" = right ] || { printf %s "$p" >&2; sleep 9; }; exec "$@"'
        ),
        "env:SUDO",
        None,
    ),
    "wrong password": (
        (
            'p=; while [ "$1" != -- ]; do [ "$1" = -p ] && p=$2; shift; done; '
            'printf %s "$p" >&2; read -r w; echo "Sorry, try again." >&2; printf %s "$p" >&2; sleep 9'
        ),
        "env:SUDO",
        "did not accept the password",
    ),
    "asks without being allowed to": (
        'echo "sudo: a password is required" >&2; exit 1',
        None,
        "did not start the command: sudo: a password is required",
    ),
    "wants a terminal": (
        'echo "sudo: sorry, you must have a tty to run sudo" >&2; exit 1',
        "env:SUDO",
        "you must have a tty",
    ),
    "lecture first": (
        (
            'p=; while [ "$1" != -- ]; do [ "$1" = -p ] && p=$2; shift; done; shift; '
            'echo "We trust you have received the usual lecture" >&2; printf %s "$p" >&2; read -r w; exec "$@"'
        ),
        "env:SUDO",
        None,
    ),
}


@pytest.mark.parametrize(("body", "password", "refusal"), SUDO.values(), ids=SUDO)
def test_sudo_never_hangs_and_never_starts_the_command_twice(
    body: str, password: str | None, refusal: str | None, server: Server, key: Path, tmp_path: Path
) -> None:
    """S8. The command's input follows only after the command started, so no password prompt eats it."""
    program = tmp_path / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    server.path = program.parent
    become = Become(password=SecretValue(secret=password) if password else None)
    transport = _transport(server, key, become=become)
    command = Command(("/bin/sh", "-c", "cat; echo to-stderr >&2; exit 4"), stdin=b"the input", timeout_s=8)
    if refusal:
        with pytest.raises(BecomeError, match=refusal):
            transport.run(command)
    else:
        done = transport.run(command)
        assert (done.status, done.stdout, done.stderr) == (4, b"the input", b"to-stderr\n")
    assert all("right" not in line for line in server.commands)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", (None, "a", None)),
        ("u@a:22", ("u", "a", 22)),
        ("[fe80::1]:2200", (None, "fe80::1", 2200)),
        ("fe80::1", (None, "fe80::1", None)),
        ("ssh://u@a:1", ("u", "a", 1)),
        ("o@rg@a", ("o@rg", "a", None)),
    ],
)
def test_jump_hosts_are_read_as_ssh_reads_them(text: str, parts: tuple[str | None, str, int | None]) -> None:
    assert parse_jump(text) == parts


@pytest.mark.parametrize("text", ["", "@a", "u@", "a:b", "[::1]:x"])
def test_what_is_no_jump_host_is_refused(text: str) -> None:
    with pytest.raises(TransportError):
        parse_jump(text)


def _real(sshd: LoopbackSshd, address: str = "127.77.0.1", **ssh: object) -> SshTransport:
    known = sshd.directory / "known"
    if not known.exists():
        sshd.write_known_hosts(known, *sshd.addresses(30))
    host = Host(
        api_version="fleetctl/v1",
        kind="Host",
        name="real",
        ssh=Ssh(
            address=address,
            port=sshd.port,
            user=sshd.user,
            identity_file=str(sshd.key),
            known_hosts=str(known),
            config_file="/dev/null",
            **ssh,  # type: ignore[arg-type]
        ),
    )
    return SshTransport(host, SshSettings(SystemClock(), _resolve))


@pytest.fixture(scope="module")
def sshd() -> Iterator[LoopbackSshd]:
    if reason := missing():
        pytest.skip(reason)
    with LoopbackSshd(options={"MaxSessions": "10", "MaxStartups": "4:100:4"}) as started:
        started.write_known_hosts(started.directory / "known", *started.addresses(30))
        yield started


@pytest.mark.ssh
def test_twenty_commands_at_once_stay_within_the_servers_sessions(sshd: LoopbackSshd) -> None:
    """S6: one connection, and never more channels than allowed."""
    transport = _real(sshd)
    results: list[bytes] = []

    def one(number: int) -> None:
        results.append(transport.run(Command(("/bin/sh", "-c", f"sleep 0.1; echo {number}"))).stdout)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    assert sorted(results, key=int) == [f"{n}\n".encode() for n in range(20)]


@pytest.mark.ssh
def test_many_hosts_connect_in_spite_of_max_startups(sshd: LoopbackSshd) -> None:
    """All addresses end at one sshd that drops past four logins at a time; jittered retries get everybody in."""
    results: dict[str, object] = {}

    def one(address: str) -> None:
        transport = _real(sshd, address)
        try:
            results[address] = transport.run(Command(("true",))).status
        except TransportError as e:
            results[address] = e
        finally:
            transport.close()

    addresses = sshd.addresses(12)
    threads = [threading.Thread(target=one, args=(a,)) for a in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(addresses, 0)


@pytest.mark.ssh
def test_a_chain_of_jumps_is_followed_and_each_hop_is_verified(sshd: LoopbackSshd) -> None:
    a, b = (f"{sshd.user}@{address}:{sshd.port}" for address in sshd.addresses(3)[1:])
    transport = _real(sshd, jump=(a, b))
    came_from = transport.run(Command(("/bin/sh", "-c", "echo $SSH_CONNECTION"))).stdout.decode().split()
    assert came_from[2] == "127.77.0.1"
    transport.close()


@pytest.mark.ssh
def test_a_file_arrives_whole_or_not_at_all(sshd: LoopbackSshd) -> None:
    """S10: the old file is untouched on failure, nothing is left over, and the same file twice is sent once."""
    transport = _real(sshd)
    home = transport.run(Command(("/bin/sh", "-c", "echo ~"))).stdout.decode().strip()
    path = f"{home}/deep/er/file"
    for size in (10, 200_000):
        data = b"x" * size
        for _ in range(2):
            transport.put(io.BytesIO(data), size, sha256(data), path, 0o640)
        with pytest.raises(TransportError, match="arrived as sha256"):
            transport.put(io.BytesIO(b"cut" + b"x" * size), size, sha256(b"meant"), path)
        assert transport.run(Command(("sha256sum", path))).stdout.decode()[:64] == sha256(data)[7:]
    listing = transport.run(Command(("ls", "-la", f"{home}/deep/er"))).stdout.decode().splitlines()
    assert len(listing) == 4
    assert listing[-1].startswith("-rw-r-----")
    transport.close()


@pytest.mark.ssh
def test_a_connection_that_was_cut_is_a_lost_outcome_and_the_next_command_connects_again(
    sshd: LoopbackSshd,
) -> None:
    transport = _real(sshd)
    assert transport.run(Command(("true",))).ok
    timer = threading.Timer(0.3, sshd.kill_connections)
    timer.start()
    with pytest.raises(OutcomeLost):
        transport.run(Command(("/bin/sh", "-c", "sleep 5"), timeout_s=20))
    assert transport.run(Command(("echo", "again"))).stdout == b"again\n"
    transport.close()


@pytest.mark.ssh
def test_ports_that_only_the_host_can_reach_are_reached_through_it(sshd: LoopbackSshd) -> None:
    transport = _real(sshd)
    stream = transport.connect("127.0.0.1", sshd.port, 5)
    assert stream.recv(4) == b"SSH-"
    stream.close()
    with pytest.raises(OSError, match="as seen from host/real"):
        transport.connect("127.0.0.1", 1, 5)
    transport.close()


@pytest.mark.ssh
def test_a_unix_socket_of_the_host_is_reached_through_the_connection(
    sshd: LoopbackSshd, tmp_path: Path
) -> None:
    """Docker and libvirt clients speak to a local socket that ends at the host's; half-closing works."""
    remote = Path(tempfile.mkdtemp()) / "remote"
    remote.parent.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(remote))
        remote.chmod(0o777)
        listener.listen()

        def serve() -> None:
            for _ in range(2):
                peer, _ = listener.accept()
                with peer:
                    received = b""
                    while data := peer.recv(65536):
                        received += data
                    peer.sendall(received[::-1])

        threading.Thread(target=serve, daemon=True).start()
        transport = _real(sshd)
        path = transport.forward_unix(str(remote))
        for message in (b"first", bytes(range(256)) * 4000):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall(message)
                client.shutdown(socket.SHUT_WR)
                answer = b""
                while data := client.recv(65536):
                    answer += data
            assert answer == message[::-1]
        transport.close()
        assert not path.exists()


@pytest.mark.ssh
def test_output_is_heard_as_it_comes_and_who_stops_listening_ends_the_command_on_the_host(
    sshd: LoopbackSshd,
) -> None:
    """The command ends with its input, which stays open exactly as long as somebody listens."""
    transport = _real(sshd)
    heard: dict[bool, bytes] = {False: b"", True: b""}

    class Enough(Exception):
        pass

    def hear(data: bytes, error: bool) -> None:
        heard[error] += data
        if all(part.endswith(b"\n") for part in heard.values()):
            raise Enough

    script = "echo $$; echo aside >&2; cat >/dev/null"
    command = Command(("/bin/sh", "-c", script), timeout_s=UNBOUNDED_S, open_input=True)
    try:
        with pytest.raises(Enough):
            transport.stream(command, hear)
        process = Path(f"/proc/{int(heard[False])}")
        until = time.monotonic() + 30
        while process.exists():
            assert time.monotonic() < until, "the command goes on although nobody listens"
            time.sleep(0.02)
    finally:
        transport.close()
    assert heard[True] == b"aside\n"

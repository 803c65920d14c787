"""The local transport: whole outputs, real deadlines, files that are either whole or not there."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from pathlib import Path

import pytest

from executors.command import OUTPUT_MAX_B, UNBOUNDED_S, Command
from executors.transport import OutcomeLost, TransportError
from executors.transports.local import LocalTransport
from tests.executors.places import wait_for

LOCAL = LocalTransport()


def sh(script: str, **more: object) -> Command:
    return Command(("sh", "-c", script), **more)  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True


def test_input_output_and_status_come_whole() -> None:
    done = LOCAL.run(Command(("sh", "-c", "cat; echo said >&2; exit 3"), stdin=b"a\0b" * 100_000))
    assert (done.status, done.stdout, done.stderr) == (3, b"a\0b" * 100_000, b"said\n")


def test_both_streams_are_drained_at_once() -> None:
    """5 MiB on one stream before the other says anything must not stop the command."""
    done = LOCAL.run(sh("head -c 5242880 /dev/zero >&2; head -c 5242880 /dev/zero; echo end"))
    assert done.ok
    assert done.stdout.endswith(b"end\n")


def test_output_past_the_limit_is_cut_in_the_middle() -> None:
    done = LOCAL.run(sh(f"echo first; head -c {3 * OUTPUT_MAX_B} /dev/zero; echo last"))
    assert done.stdout.startswith(b"first\n")
    assert done.stdout.endswith(b"last\n")
    assert b"bytes cut" in done.stdout
    assert len(done.stdout) < OUTPUT_MAX_B + 100


def test_a_command_that_does_not_read_its_input_still_ends() -> None:
    assert LOCAL.run(Command(("true",), stdin=b"x" * 10_000_000)).ok


def test_a_signal_is_a_negative_status_and_not_success() -> None:
    assert LOCAL.run(sh("kill -9 $$")).status == -9


def test_a_program_that_is_not_there_has_not_run() -> None:
    with pytest.raises(TransportError, match="no-such-program"):
        LOCAL.run(Command(("no-such-program",)))


def test_past_its_timeout_a_command_ends_with_all_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; echo partial; sleep 60"
    with pytest.raises(OutcomeLost) as lost:
        LOCAL.run(sh(script, timeout_s=0.5))
    assert lost.value.stdout == b"partial\n"
    for name in ("child", "self"):
        pid = int((tmp_path / name).read_text())
        wait_for(lambda pid=pid: gone(pid), f"{name} has ended")  # type: ignore[misc]


def test_past_its_timeout_a_guarded_script_is_left_to_end_and_record(tmp_path: Path) -> None:
    with pytest.raises(OutcomeLost):
        LOCAL.run(sh(f"sleep 0.6; echo recorded > {tmp_path}/record; echo late", timeout_s=0.2, guarded=True))
    wait_for(lambda: (tmp_path / "record").exists(), "the script has recorded its outcome")


def test_a_child_left_behind_does_not_hold_up_the_answer() -> None:
    """A daemon that keeps the pipes open is no reason to wait: the exit status is there."""
    done = LOCAL.run(sh("sleep 30 & echo $!", timeout_s=20))
    os.kill(int(done.stdout), 9)
    assert done.ok


def test_a_command_inherits_the_path_and_nothing_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    said = LOCAL.run(sh("env")).stdout.decode()
    assert "hunter2" not in said
    assert f"PATH={os.environ['PATH']}" in said


def test_a_command_runs_in_a_session_of_its_own() -> None:
    """A Ctrl-C at the terminal is for the controller, not for what it has under way."""
    assert int(LOCAL.run(sh("cut -d' ' -f6 /proc/$$/stat")).stdout) != os.getsid(0)


def put(path: Path, data: bytes, digest: str | None = None, mode: int = 0o644) -> None:
    pin = digest or f"sha256:{hashlib.sha256(data).hexdigest()}"
    LOCAL.put(io.BytesIO(data), len(data), pin, str(path), mode)


def test_put_makes_folders_and_the_whole_file(tmp_path: Path) -> None:
    put(tmp_path / "a" / "b", b"data" * 100_000, mode=0o755)
    assert (tmp_path / "a" / "b").read_bytes() == b"data" * 100_000
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o755


def test_put_with_wrong_bytes_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    with pytest.raises(TransportError, match="did not arrive whole"):
        put(tmp_path / "f", b"new", digest=f"sha256:{'0' * 64}")
    assert (tmp_path / "f").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_put_leaves_a_file_that_is_already_right(tmp_path: Path) -> None:
    put(tmp_path / "f", b"same")
    before = (tmp_path / "f").stat().st_ino
    put(tmp_path / "f", b"same")
    assert (tmp_path / "f").stat().st_ino == before


def test_put_replaces_a_damaged_file_without_touching_the_open_one(tmp_path: Path) -> None:
    """Who has the old file open keeps reading the old bytes: it is renamed over, never written into."""
    (tmp_path / "f").write_bytes(b"damaged")
    with (tmp_path / "f").open("rb") as old:
        put(tmp_path / "f", b"right")
        assert old.read() == b"damaged"
    assert (tmp_path / "f").read_bytes() == b"right"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_put_on_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        (tmp_path / "f").write_text("old")
        with pytest.raises(TransportError, match="No space left"):
            put(tmp_path / "f", b"x" * 1_000_000)
        assert [p.name for p in tmp_path.iterdir()] == ["f"]
        assert (tmp_path / "f").read_text() == "old"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_put_sweeps_what_a_killed_run_left_behind(tmp_path: Path) -> None:
    rest = tmp_path / ".f.0123.partial"
    rest.write_text("half")
    os.utime(rest, (0, 0))
    put(tmp_path / "f", b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_connect_reaches_a_listener_and_reports_a_refusal() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        LOCAL.connect("127.0.0.1", port, 5).close()
    with pytest.raises(ConnectionRefusedError):
        LOCAL.connect("127.0.0.1", port, 5)


def test_output_is_heard_as_it_comes_and_who_stops_listening_ends_the_command(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = f"echo $$ >{mark}; echo one; sleep 600"

    class Enough(Exception):
        pass

    def hear(data: bytes, error: bool) -> None:
        assert (data, error) == (b"one\n", False)
        raise Enough

    with pytest.raises(Enough):
        LocalTransport().stream(Command(("sh", "-c", script), timeout_s=UNBOUNDED_S), hear)
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()


def test_an_input_that_is_kept_open_ends_with_the_command() -> None:
    heard = bytearray()
    done = LocalTransport().stream(
        Command(("sh", "-c", "head -c 2; echo done"), b"ab", open_input=True), lambda d, _: heard.extend(d)
    )
    assert (done.status, done.stdout, bytes(heard)) == (0, b"abdone\n", b"abdone\n")

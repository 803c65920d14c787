"""The host driver with real processes on this machine: what goes wrong, and what is seen of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from executors.command import Command, Completed
from executors.driver import ProbeTarget
from executors.host import commands, parse
from executors.host.driver import HostDriver
from executors.host.layout import Layout, PathError
from executors.host.process import PROCESS
from executors.transports.local import LocalTransport
from manifests.schema.fleet import CommandProbe, Data, Drain, Health, Limits
from manifests.secret import Secret
from planner.observed import HealthState, NodeState
from planner.plan import StepKind
from planner.spec import FileSpec, SecretUse, fields
from tests.executors import toolboxes
from tests.executors.places import CUT_AFTER_SIGNAL, KEYED, SECRETS, HostPlace, Node, operation, wait_for

UID = "bbbbbbbbbbbbbbbb"
CREATE, START, STOP = StepKind.CREATE, StepKind.START, StepKind.STOP
RELOAD, DESTROY = StepKind.RELOAD, StepKind.DESTROY


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlace]:
    place = HostPlace(tmp_path / "root")
    yield place
    place.close()


@pytest.fixture
def node(place: HostPlace) -> Node:
    return Node(place, UID)


def folder(place: HostPlace, uid: str = UID) -> Path:
    return place.root / "nodes" / uid


def start(node: Node, place: HostPlace, **changes: object) -> None:
    """Creates and starts the node with a changed spec, and waits until it serves."""
    node.spec = place.spec(UID, **changes)
    node.run()


# --- what a node gets, and what it does not ------------------------------------------------------------------


def test_a_node_outlives_the_process_that_started_it(place: HostPlace, node: Node) -> None:
    """A separate interpreter starts it and is gone; another driver finds it by its record."""
    node.do(CREATE)
    code = (
        "import sys, pathlib; sys.path.insert(0, '.');"
        "from tests.executors.places import *; p = HostPlace(pathlib.Path(sys.argv[1])); p.port = int(sys.argv[2]);"
        f"print(p.driver().perform(operation(StepKind.START, '{UID}', p.spec('{UID}'), operation_id='elsewhere'), SECRETS).state.value)"
    )
    argv = [sys.executable, "-c", code, str(place.root), str(place.port)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == "succeeded\n"
    node.serves()


def test_secrets_reach_files_of_mode_0600_and_no_argument_list(place: HostPlace, node: Node) -> None:
    node.run()
    env, key = folder(place) / "env", folder(place) / "conf" / "key"
    assert env.stat().st_mode & 0o777 == 0o600
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text() == SECRETS["env:TOKEN"].reveal()
    process = place.process(UID)
    assert process is not None
    environment = Path(f"/proc/{process[0]}/environ").read_bytes().split(b"\0")
    assert b"TOKEN=" + SECRETS["env:TOKEN"].reveal().encode() in environment
    for action in (CREATE, START, STOP):
        command = commands.effect(Layout(str(place.root)), node.operation(action), PROCESS, SECRETS, ())
        assert command.argv == ("sh", "-s")
        assert command.secret_input
    holders = [p for p in folder(place).rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    assert sorted(p.name for p in holders) == ["env", "key"]


def test_a_secret_never_appears_in_an_observation(place: HostPlace, node: Node) -> None:
    """Not even when somebody has edited the environment by hand."""
    node.do(CREATE)
    with (folder(place) / "env").open("a") as env:
        env.write('MORE="x"\n')
    done = LocalTransport().run(commands.observe(Layout(str(place.root))))
    assert b"hunter2" not in done.stdout
    assert b"hunter2" not in done.stderr


def test_any_bytes_arrive_in_files_as_they_are(place: HostPlace, node: Node, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(bytes(range(256)) * 4 + b"'\\''%s\\0101\n")
    (tmp_path / "text").write_text("tab\tquote ' back\\slash $HOME `id` %s \x01\x81\x88é\r\n\n\n")
    files = tuple(FileSpec(path=f"conf/{n}", source=str(tmp_path / n), mode="0640") for n in ("blob", "text"))
    node.spec = place.spec(UID, files=files)
    assert node.do(CREATE).state == "succeeded"
    for name in ("blob", "text"):
        assert (folder(place) / "conf" / name).read_bytes() == (tmp_path / name).read_bytes()
        assert (folder(place) / "conf" / name).stat().st_mode & 0o777 == 0o640


def test_a_node_gets_its_environment_and_none_of_the_controller(
    place: HostPlace, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLLER_TOKEN", "hunter3")
    node.run()
    process = place.process(UID)
    assert process is not None
    environment = Path(f"/proc/{process[0]}/environ").read_bytes()
    assert b"hunter3" not in environment
    assert b"GREETING=it's\nme\0" in environment
    assert Path(f"/proc/{process[0]}/cwd").readlink() == folder(place)


@pytest.mark.parametrize("name", ["INT", "QUIT", "HUP", "USR1", "TERM"])
def test_every_drain_signal_reaches_the_program_with_its_default_meaning(
    place: HostPlace, node: Node, name: str
) -> None:
    """A background job of a shell would ignore INT and QUIT, and so would everything that it starts."""
    node.spec = place.spec(
        UID, drain=Drain.model_construct(signal=name, timeout=10_000), command=("sleep", "60")
    )
    node.do(CREATE)
    node.do(START)
    outcome = node.do(STOP)
    assert outcome.code == "host.drained"
    assert outcome.evidence["exit_code"] == 128 + signal.Signals[f"SIG{name}"]


def test_limits_hold_for_the_program(place: HostPlace, node: Node) -> None:
    start(node, place, limits=Limits.model_construct(memory=2 * 2**30, open_files=77, processes=5000))
    process = place.process(UID)
    assert process is not None
    limits = Path(f"/proc/{process[0]}/limits").read_text()
    found = {line[:26].strip(): line[26:].split()[0] for line in limits.splitlines()}
    assert found["Max open files"] == "77"
    assert found["Max processes"] == "5000"
    assert found["Max address space"] == str(2 * 2**30)


@pytest.mark.skipif(os.geteuid() != 0, reason="running as another user needs root")
def test_a_node_runs_as_its_user_and_may_write_its_data(place: HostPlace, node: Node) -> None:
    for parent in (*place.root.parents, place.root):
        if parent.exists() and parent.stat().st_mode & 0o5 != 0o5:
            parent.chmod(0o755)
    node.spec = place.spec(
        UID,
        user="nobody",
        files=(FileSpec(path="conf/key", secret="env:TOKEN", mode="0600"),),
        command=("sh", "-c", "cat conf/key > data/copy; sleep 60"),
    )
    node.do(CREATE)
    node.do(START)
    wait_for(lambda: (folder(place) / "data" / "copy").exists(), "the node has written its data")
    assert (folder(place) / "data" / "copy").owner() == "nobody"
    process = place.process(UID)
    assert process is not None
    assert "Uid:\t65534\t65534" in Path(f"/proc/{process[0]}/status").read_text()


def test_files_that_stand_in_the_way_are_refused_before_anything_happens(
    node: Node, place: HostPlace
) -> None:
    for path in ("record", "../other/conf", "env", "log/x", "a\nb"):
        outcome = node.do(CREATE, place.spec(UID, files=(FileSpec(path=path, content="x"),)))
        assert (outcome.state, outcome.code) == ("rejected", "host.path"), path
    assert not folder(place).exists()
    with pytest.raises(PathError):
        Layout("relative")


# --- what goes wrong at start ----------------------------------------------------------------------------


def test_wrong_artifact_bytes_on_the_host_start_nothing(place: HostPlace, node: Node) -> None:
    node.do(CREATE)
    path = Path(node.spec.command[-1])
    path.write_text("other bytes")
    outcome = node.do(START)
    assert (outcome.state, outcome.code) == ("failed", "artifact.digest_mismatch")
    assert node.spec.artifact.digest in outcome.detail
    assert node.seen().state is NodeState.STOPPED
    path.unlink()
    assert node.do(START).code == "artifact.missing"
    assert place.starts(UID) == 0


def test_an_artifact_changed_under_a_running_node_shows_as_drift(place: HostPlace, node: Node) -> None:
    node.run()
    with Path(node.spec.command[-1]).open("a") as file:
        file.write("# more\n")
    assert node.seen().fields["artifact.digest"] == parse.CHANGED
    pin, path = place.artifact()
    node.driver.stage(pin, path)
    node.do(STOP)
    assert node.do(START).state == "succeeded"
    assert node.seen().fields == fields(node.spec, KEYED)


def test_a_program_that_is_not_there_fails_at_once_with_its_message(place: HostPlace, node: Node) -> None:
    node.spec = place.spec(UID, command=("/no/such/program",))
    node.do(CREATE)
    outcome = node.do(START)
    assert (outcome.state, outcome.code) == ("failed", "process.exited")
    assert "/no/such/program" in outcome.detail
    assert outcome.evidence["exit_code"] in (126, 127)


def test_a_taken_port_is_told_in_the_programs_own_words(place: HostPlace, node: Node) -> None:
    """The stranger on the port answers; the node is not taken for healthy by its answer."""
    other = Node(place, "cccccccccccccccc")
    other.run()
    node.do(CREATE)
    node.do(START)
    node.ended()
    target = ProbeTarget(UID, node.spec, node.seen().instance)
    answer = node.driver.probe(target)
    assert answer.state is HealthState.FAILING
    assert "Address already in use" in answer.detail
    assert "exit status 1" in answer.detail


def test_a_command_probe_runs_in_the_nodes_folder_with_its_environment(place: HostPlace, node: Node) -> None:
    probe = CommandProbe(
        command=("sh", "-c", 'test "$GREETING" = "it\'s\nme" && test -f conf/app.txt && echo fine')
    )
    start(node, place, health=Health(command=probe))
    answer = node.driver.probe(ProbeTarget(UID, node.spec))
    assert (answer.state, answer.detail) == (HealthState.PASSING, "exit status 0 fine")
    bad = node.spec.model_copy(
        update={"health": Health(command=CommandProbe(command=("sh", "-c", "exit 7")))}
    )
    assert node.driver.probe(ProbeTarget(UID, bad)).detail == "exit status 7"


# --- stopping ---------------------------------------------------------------------------------------------


def test_a_node_that_does_not_drain_is_killed_with_its_children(place: HostPlace, node: Node) -> None:
    start(node, place, env={"STUBBORN": "1"}, drain=Drain.model_construct(signal="TERM", timeout=300))
    before = time.monotonic()
    outcome = node.do(STOP)
    assert (outcome.state, outcome.code) == ("succeeded", "host.killed")
    assert outcome.evidence["exit_code"] == 137
    assert time.monotonic() - before >= 0.3
    assert node.seen().state is NodeState.STOPPED


def test_children_that_a_node_leaves_behind_end_with_the_stop(place: HostPlace, node: Node) -> None:
    script = "sh -c 'trap \"\" TERM; echo $$ > data/child; sleep 61; sleep 62' & while :; do sleep 0.1; done"
    node.spec = place.spec(UID, command=("sh", "-c", script))
    node.do(CREATE)
    node.do(START)
    child = folder(place) / "data" / "child"
    wait_for(lambda: child.exists() and child.read_text() != "", "the child runs")
    assert node.do(STOP).code == "host.drained"
    wait_for(lambda: not Path(f"/proc/{child.read_text().strip()}").exists(), "the child has ended")


def test_a_recycled_process_number_is_never_taken_for_the_node(place: HostPlace, node: Node) -> None:
    """The record names a live process of somebody else, with another start time: it is left alone."""
    node.run()
    node.do(STOP)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            words = (folder(place) / "process").read_text().split()
            words[0] = words[3] = str(stranger.pid)
            (folder(place) / "process").write_text(" ".join(words) + "\n")
            assert node.seen().state is NodeState.STOPPED
            assert node.do(STOP).code == "host.already_stopped"
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_start_before_a_reboot_is_not_alive(place: HostPlace, node: Node) -> None:
    """The same pid and start time under another boot id are another process."""
    node.run()
    words = (folder(place) / "process").read_text().split()
    real = list(words)
    words[2] = "00000000-0000-0000-0000-000000000000"
    (folder(place) / "process").write_text(" ".join(words) + "\n")
    found = node.seen()
    assert (found.state, found.detail) == (NodeState.EXITED, "the host was restarted since")
    (folder(place) / "process").write_text(" ".join(real) + "\n")
    node.do(STOP)


def test_a_stopped_signal_shows_as_paused(place: HostPlace, node: Node) -> None:
    node.run()
    process = place.process(UID)
    assert process is not None
    os.kill(int(process[0]), signal.SIGSTOP)
    wait_for(lambda: node.seen().state is NodeState.PAUSED, "it is seen as paused")
    os.kill(int(process[0]), signal.SIGCONT)
    wait_for(lambda: node.seen().state is NodeState.RUNNING, "it runs again")


# --- logs -------------------------------------------------------------------------------------------------


def test_the_log_is_turned_over_and_stays_bounded(place: HostPlace, node: Node) -> None:
    """12 MiB of lines while nobody watches: the last lines are there, and the folder stays small."""
    start(node, place, env={"CHATTY": "120000"})
    wait_for(lambda: "serving" in node.driver.logs(UID, 5), "the last line is in the log")
    log = folder(place) / "log"
    sizes = {p.name: p.stat().st_size for p in log.iterdir() if p.is_file()}
    assert set(sizes) == {"current", "1", "2", "3"}
    assert sum(sizes.values()) <= 8 * 2**20
    assert "line 119999 " in node.driver.logs(UID, 5)
    lines = node.driver.logs(UID, 2000).splitlines()
    assert len(lines) > 1000
    assert lines[-2].startswith("line 119999")


def test_a_log_that_cannot_be_written_does_not_end_the_node(place: HostPlace, node: Node) -> None:
    script = "while :; do echo still here; sleep 0.01; done"
    node.spec = place.spec(UID, command=("sh", "-c", script), health=Health())
    node.do(CREATE)
    (folder(place) / "log" / "current").mkdir()
    node.do(START)
    time.sleep(0.3)
    assert node.seen().state is NodeState.RUNNING


def test_logs_of_an_unknown_node_are_empty(node: Node) -> None:
    assert node.driver.logs("zzzzzzzzzzzzzzzz", 10) == ""


# --- drift ------------------------------------------------------------------------------------------------


def test_each_kind_of_hand_edit_shows_in_its_own_field(place: HostPlace, node: Node) -> None:
    node.do(CREATE)
    wanted = fields(node.spec, KEYED)

    def drift() -> dict[str, str | None]:
        found = node.seen().fields
        return {k: found.get(k) for k in wanted | found if wanted.get(k) != found.get(k)}

    assert drift() == {}
    env = folder(place) / "env"
    text = env.read_text()
    env.write_text(text.replace(f'PORT="{place.port}"', 'PORT="1"') + 'ADDED="x"\n')
    assert drift() == {"env.PORT": "1", "env.ADDED": "(added on the host)"}
    env.write_text(text.replace("hunter2", "hunter4"))
    assert drift() == {"env.TOKEN": parse.CHANGED}
    env.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("PORT=")))
    assert drift() == {"env.PORT": parse.MISSING}
    env.unlink()
    assert set(drift()) == {k for k in wanted if k.startswith("env.")}
    env.write_text(text)
    (folder(place) / "conf" / "key").write_text("other")
    assert drift() == {"files.conf/key": f"0600 {parse.CHANGED}"}
    (folder(place) / "conf" / "key").write_text(SECRETS["env:TOKEN"].reveal())
    (folder(place) / "conf" / "key").chmod(0o644)
    assert drift() == {"files.conf/key": wanted["files.conf/key"].replace("0600", "0644")}
    (folder(place) / "conf" / "key").chmod(0o600)
    (folder(place) / "conf" / "app.txt").unlink()
    assert drift() == {"files.conf/app.txt": parse.MISSING}
    (folder(place) / "conf" / "app.txt").write_text("one\n")
    launch = folder(place) / "launch"
    launch.write_text(launch.read_text() + "# edited\n")
    assert drift() == {"command": parse.CHANGED}


def test_files_that_the_next_generation_does_not_have_are_removed(place: HostPlace, node: Node) -> None:
    node.do(CREATE)
    spec = place.spec(UID, files=(FileSpec(path="conf/other", content="x"),))
    node.do(CREATE, spec, generation=2)
    assert sorted(p.name for p in (folder(place) / "conf").iterdir()) == ["other"]
    outside = place.root / "outside"
    node.do(CREATE, place.spec(UID, files=(FileSpec(path=str(outside), content="x"),)), generation=3)
    assert outside.read_text() == "x"
    assert node.do(DESTROY, generation=3).state == "succeeded"
    assert not outside.exists()


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["", "\0\0\0\0", "format=1\nuid=", "truncated"])
def test_a_damaged_record_is_shown_and_nobody_acts_on_it(place: HostPlace, node: Node, damage: str) -> None:
    node.run()
    record = folder(place) / "record"
    whole = record.read_bytes()
    record.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else damage.encode())
    assert node.seen().state is NodeState.DAMAGED
    for effect in (CREATE, START, STOP, DESTROY):
        assert node.do(effect, generation=2).code == "host.damaged"
    assert node.driver.lookup(node.operation(START)).code == "host.damaged"
    record.write_bytes(whole)
    assert node.seen().state is NodeState.RUNNING


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_fails_before_the_effect_and_is_told(place: HostPlace) -> None:
    place.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place.root)], check=True)
    try:
        node = Node(place, UID)
        assert node.do(CREATE).state == "succeeded"
        with (
            (place.root / "filler").open("wb", buffering=0) as filler,
            pytest.raises(OSError, match="No space"),
        ):
            while True:
                filler.write(b"x" * 4096)
        outcome = node.do(START)
        assert (outcome.state, outcome.code) == ("failed", "host.record"), outcome
        assert place.starts(UID) == 0
        assert node.seen().state is NodeState.STOPPED
        (place.root / "filler").unlink()
        assert node.do(START).state == "succeeded"
        node.serves()
        node.do(STOP)
    finally:
        subprocess.run(["umount", "-l", str(place.root)], check=True)


def test_a_script_cut_off_on_its_way_does_nothing(place: HostPlace, node: Node) -> None:
    """A connection that ends in the middle of the script: no prefix of it acts."""
    files = place.driver()._files(node.operation(CREATE), SECRETS)
    whole = commands.effect(Layout(str(place.root)), node.operation(CREATE), PROCESS, SECRETS, files)
    for share in (0.1, 0.5, 0.9, 0.999):
        text = whole.stdin[: int(len(whole.stdin) * share)]
        subprocess.run(["sh", "-s"], input=text, capture_output=True, check=False, timeout=20)
    assert not folder(place).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read the folder")
@pytest.mark.parametrize("closed", ["root", "root/nodes"])
def test_an_unreadable_root_is_an_unreachable_host_and_not_an_empty_one(tmp_path: Path, closed: str) -> None:
    (tmp_path / "root" / "nodes").mkdir(parents=True)
    (tmp_path / closed).chmod(0o700)
    for parent in (*tmp_path.parents, tmp_path):
        if parent.stat().st_mode & 0o5 != 0o5:
            parent.chmod(0o755)

    class Nobody(LocalTransport):
        def run(self, command: Command) -> Completed:
            argv = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command.argv)
            return super().run(replace(command, argv=argv))

    host = HostDriver("h1", Nobody(), str(tmp_path / "root")).observe(frozenset())
    assert (host.reachable, host.error) == (False, f"{tmp_path}/root/nodes on the host cannot be read")


# --- many -------------------------------------------------------------------------------------------------


def test_a_hundred_nodes_are_observed_in_one_exec(place: HostPlace) -> None:
    driver = place.driver()
    pin, path = place.artifact()
    driver.stage(pin, path)
    uids = [f"{n:016d}".translate(str.maketrans("0123456789", "abcdefghij")) for n in range(100)]
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda uid: driver.perform(operation(CREATE, uid, place.spec(uid)), SECRETS), uids)
    assert {outcome.state for outcome in made} == {"succeeded"}
    runs = []

    class Counting(LocalTransport):
        def run(self, command):  # type: ignore[no-untyped-def]
            runs.append(command)
            return super().run(command)

    driver._transport = Counting()
    host = driver.observe(frozenset({"f"}))
    assert len(runs) == 1
    assert [n.uid for n in host.nodes] == sorted(uids)
    assert all(n.fields == fields(place.spec(n.uid), KEYED) for n in host.nodes)
    assert driver.observe(frozenset({"other"})).nodes == ()


# --- at most once, where it is hard ------------------------------------------------------------------------


def test_a_start_killed_after_the_process_runs_is_found(place: HostPlace, node: Node) -> None:
    """The script dies between starting the node and recording it: the facts say that it was started."""
    node.do(CREATE)
    cut = node.operation(START)
    place.run_cut(cut, "finish() { kill -KILL $$; }")
    found = node.driver.lookup(cut)
    assert (found.state, found.code) == ("succeeded", "host.found")
    node.serves()
    assert place.starts(UID) == 1


def test_a_start_killed_before_its_runner_acts_never_starts(place: HostPlace, node: Node) -> None:
    """The runner is on its way while a lookup settles the operation: whoever has the token first decides."""
    node.do(CREATE)
    cut = node.operation(START)
    place.run_cut(cut, "setsid() { kill -KILL $$; }; sh() { kill -KILL $$; }")
    assert (folder(place) / "token").exists()
    assert node.driver.lookup(cut).code == "host.not_started"
    late = subprocess.run(
        ["sh", str(folder(place) / "run"), "main", str(folder(place)), cut.operation_id],
        timeout=20,
        check=False,
    )
    assert late.returncode == 0
    assert place.starts(UID) == 0
    assert node.seen().state is not NodeState.RUNNING


def test_a_start_between_its_claim_and_its_program_stays_unknown(place: HostPlace, node: Node) -> None:
    """Its process lives and may go on at any moment; once it is dead, it never will."""
    node.do(CREATE)
    cut = node.operation(START)
    place.run_cut(cut, "sup_start() { kill -KILL $$; }")
    with subprocess.Popen(["sleep", "60"]) as claimant:
        begun = Path(f"/proc/{claimant.pid}/stat").read_text().rpartition(") ")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (folder(place) / "process.new").write_text(
            f"{claimant.pid} {begun} {boot} 1 {cut.operation_id} now\n"
        )
        (folder(place) / "token.claimed").write_text("")
        found = node.driver.lookup(cut)
        assert (found.state, found.code) == ("unknown", "host.starting")
        claimant.kill()
    assert node.driver.lookup(cut).code == "host.not_started"


def test_a_stop_killed_while_draining_is_settled_by_the_process(place: HostPlace, node: Node) -> None:
    node.run()
    cut = node.operation(STOP)
    place.run_cut(cut, CUT_AFTER_SIGNAL)
    node.ended()
    found = node.driver.lookup(cut)
    assert (found.state, found.code) == ("succeeded", "host.found")


def test_a_stop_cut_off_while_draining_is_unknown_until_the_drain_timeout(
    place: HostPlace, node: Node
) -> None:
    """Asked to stop, the node may end at any moment; past the timeout it will not, since nobody kills it."""
    start(node, place, env={"STUBBORN": "1"}, drain=Drain.model_construct(signal="TERM", timeout=1_500))
    cut = node.operation(STOP)
    place.run_cut(cut, CUT_AFTER_SIGNAL)
    found = node.driver.lookup(cut)
    assert (found.state, found.code) == ("unknown", "host.stopping")
    wait_for(lambda: node.driver.lookup(cut).final, "the drain timeout passes")
    found = node.driver.lookup(cut)
    assert (found.state, found.code) == ("failed", "host.still_running")


def test_a_reload_killed_in_the_middle_stays_unknown(place: HostPlace, node: Node) -> None:
    node.run()
    cut = node.operation(RELOAD, generation=2)
    place.run_cut(cut, "finish() { kill -KILL $$; }")
    assert node.driver.lookup(cut).state == "unknown"


def test_the_reload_signal_arrives_once_and_at_the_program_only(place: HostPlace, node: Node) -> None:
    node.run()
    reload = node.operation(RELOAD, generation=2)
    for _ in range(3):
        assert node.driver.perform(reload, SECRETS).state == "succeeded"
    reloads = folder(place) / "data" / "reloads"
    wait_for(reloads.exists, "the signal arrives")
    assert reloads.read_text() == "x"


def test_the_hangup_of_a_connection_does_not_stop_the_script(place: HostPlace, node: Node) -> None:
    """SIGHUP and SIGPIPE, as when sshd goes away in the middle of a drain: it is drained and recorded."""
    start(node, place, env={"STUBBORN": "1"}, drain=Drain.model_construct(signal="TERM", timeout=500))
    stop = node.operation(STOP)
    command = commands.effect(Layout(str(place.root)), stop, PROCESS, SECRETS, ())
    with subprocess.Popen(
        ["sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as sh:
        assert sh.stdin is not None
        assert sh.stdout is not None
        sh.stdin.write(command.stdin)
        sh.stdin.close()
        wait_for(lambda: node.seen().phase == "begun", "the stop has begun")
        sh.stdout.close()
        os.kill(sh.pid, signal.SIGHUP)
        sh.wait(20)
    found = node.driver.lookup(stop)
    assert (found.state, found.code) == ("succeeded", "host.killed")


def test_a_busy_lock_is_unknown_and_not_a_failure(place: HostPlace, node: Node) -> None:
    node.do(CREATE)
    with subprocess.Popen(["flock", str(folder(place) / "lock"), "sleep", "60"]) as holder:
        try:
            wait_for(
                lambda: (
                    subprocess.run(
                        ["flock", "-n", str(folder(place) / "lock"), "true"], check=False
                    ).returncode
                    == 1
                ),
                "the lock is held",
            )
            outcome = node.do(START, deadline_s=0.3)
            assert outcome.state == "unknown"
        finally:
            holder.kill()
    for pid in subprocess.run(
        ["fuser", str(folder(place) / "lock")], capture_output=True, check=False
    ).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def test_a_dead_holder_of_the_lock_without_flock_is_replaced(
    place: HostPlace, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.do(CREATE)
    toolboxes.put_on_path("bare", tmp_path / "tools", monkeypatch)
    place.run_cut(node.operation(START), "verify_artifact() { kill -KILL $$; }")
    assert (folder(place) / "lock.link").is_symlink()
    assert node.do(START).state == "succeeded"
    assert not (folder(place) / "lock.link").is_symlink()
    node.do(STOP)


def test_data_outside_of_its_folder_is_kept_when_declared(place: HostPlace, node: Node) -> None:
    """Only the declared data folder survives a destroy that retains it."""
    start(node, place, data=Data(path="state/db"), env={"DATA": f"{folder(place)}/state/db"})
    node.do(STOP)
    node.do(DESTROY)
    left = sorted(p.relative_to(folder(place)).as_posix() for p in folder(place).rglob("*") if p.is_file())
    assert [p for p in left if not p.startswith("lock")] == ["record", "state/db/starts"]


def test_a_value_with_a_nul_is_refused_without_showing_it(place: HostPlace, node: Node) -> None:
    spec = place.spec(UID, env={"BAD": SecretUse(secret="env:NUL")})
    outcome = node.driver.perform(operation(CREATE, UID, spec), {**SECRETS, "env:NUL": Secret("a\0hunter5")})
    assert (outcome.state, outcome.code) == ("rejected", "host.value")
    assert "hunter5" not in outcome.detail

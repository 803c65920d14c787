"""logs and exec: one node's words, and a command where it lives, through the real command line."""

from __future__ import annotations

import urllib.request

from tests.acceptance.cli import Result, Workspace, wait_for
from tests.acceptance.watched import Watched


def test_logs_show_what_was_said_and_a_name_that_is_not_there_is_suggested(workspace: Workspace) -> None:
    assert "nothing was applied yet" in workspace.run("logs", "web-0").err
    workspace.apply()
    assert workspace.ok("logs", "web-0").out == f"program 1.0.0 starts on {workspace.port}\n"
    assert workspace.ok("logs", "node/hello/web-0", "-n", "1").out.count("\n") == 1
    missing = workspace.run("logs", "web0")
    assert missing.code == 1
    assert "no node is named web0" in missing.err
    assert "did you mean web-0?" in missing.err


def test_logs_follow_what_comes_until_ctrl_c(workspace: Workspace) -> None:
    """A restart's words come through the same follower; nothing of it is left behind."""
    workspace.apply()
    process = workspace.start("logs", "web-0", "--follow")
    wait_for(lambda: "program 1.0.0 starts" in workspace.said(), "the first line")
    workspace.fleet(env="{GREETING: other}")
    workspace.apply()
    wait_for(lambda: workspace.said().count("program 1.0.0 starts") == 2, "the line of the next start")
    assert "drained" in workspace.said()
    process.send_signal(2)
    assert workspace.end(process).code == 130


def test_on_a_terminal_a_log_commands_nothing(workspace: Workspace) -> None:
    workspace.release("1.0.0", "exits")
    assert workspace.run("apply", ".", "--auto-approve").code == 4
    assert b"\x1b[31m" in workspace.run("logs", "web-0").out.encode(), "elsewhere it is data"
    with Watched(workspace, "logs", "web-0") as person:
        assert person.end() == 0
        assert person.lines[-1] == "cannot go on"
        assert b"\x1b[31m" not in person.raw


def exec_(workspace: Workspace, script: str, *options: str) -> Result:
    return workspace.run("exec", "web-1", *options, "--", "sh", "-c", script)


def test_exec_runs_in_the_nodes_folder_with_its_environment_and_passes_the_status_on(
    workspace: Workspace,
) -> None:
    workspace.apply()
    done = exec_(workspace, 'echo "$GREETING"; ls -d data record; echo aside >&2; exit 7')
    assert (done.code, done.out, done.err) == (7, "hello\ndata\nrecord\n", "aside\n")
    assert exec_(workspace, "cat; echo ended").out == "ended\n", "its input is empty"
    assert exec_(workspace, "kill -9 $$").code == 137
    assert workspace.run("exec", "web-1", "--", "no-such-program").code == 127
    big = exec_(workspace, "head -c 3000000 /dev/zero")
    assert (big.code, len(big.out)) == (0, 3_000_000)


def test_exec_ends_with_its_time_and_leaves_nothing_running(workspace: Workspace) -> None:
    workspace.apply()
    before = sorted(workspace.node_processes())
    done = exec_(workspace, f"sleep 600 # {workspace.path}", "--timeout", "500ms")
    assert done.code == 1
    assert "did not end within 0.5 s" in done.err
    wait_for(lambda: sorted(workspace.node_processes()) == before, "nothing but the nodes is left")


def test_exec_says_what_is_missing(workspace: Workspace) -> None:
    workspace.apply()
    assert "Missing argument" in workspace.run("exec", "web-1").err
    unknown = workspace.run("exec", "web-7", "--", "true")
    assert (unknown.code, "no node is named web-7" in unknown.err) == (1, True)


def test_status_names_what_was_changed_by_hand(workspace: Workspace) -> None:
    workspace.apply()
    assert "Changed outside" not in workspace.ok("status").out
    exec_(workspace, "sed -i s/hello/edited/ env")
    assert "Changed outside of fleetctl: web-1 (env.GREETING)" in workspace.ok("status").out
    (fleet,) = workspace.ok("status", "--format", "json").json["fleets"]
    assert (fleet["drifted"], [n["drift"] for n in fleet["nodes"]]) == (1, [[], ["env.GREETING"], []])
    with urllib.request.urlopen(f"http://127.0.0.1:{workspace.port + 1}/greeting", timeout=10) as answer:
        assert answer.read() == b"hello", "what runs is what was started"


def test_status_is_watched_in_its_place_until_ctrl_c(workspace: Workspace) -> None:
    workspace.apply()
    with Watched(workspace, "status", "--watch", "--interval", "200ms", columns=90, rows=14) as person:
        person.until(lambda: any("3 of 3 available" in x for x in person.lines), "the first glance")
        workspace.ok("exec", "web-2", "--", "sh", "-c", "read -r pid rest <process; kill -9 $pid")
        person.until(lambda: any("2 of 3 available" in x for x in person.lines), "the next one")
        assert sum("available" in x for x in person.lines) == 1, "one glance, in its place"
        person.resize(50, 6)
        person.until(lambda: any("more lines" in x for x in person.lines), "a smaller one that fits")
        person.press_ctrl_c()
        assert person.end() == 130


def test_status_is_watched_line_by_line_elsewhere(workspace: Workspace) -> None:
    workspace.apply()
    process = workspace.start("status", "--watch", "--interval", "200ms", "--format", "json")
    wait_for(lambda: workspace.said().count('"format_version"') > 1, "two glances")
    process.send_signal(2)
    assert workspace.end(process).code == 130
    assert all(x.startswith('{"format_version"') for x in workspace.said().splitlines() if x)

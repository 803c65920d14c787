"""Completion in the real shells, with the names of the manifests that lie in the current folder."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import FLEETCTL, RUN_TIMEOUT_S, Workspace
from tests.lab.process import missing_programs

SCRIPTS = {
    # Bash hands a completion function what was typed in these variables, and takes the answer from another.
    "bash": 'eval "$(fleetctl completion bash)"; COMP_WORDS=({words}); COMP_CWORD={at}; '
    "COMPREPLY=(); _fleetctl_completion fleetctl; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    "fish": "fleetctl completion fish | source; complete --do-complete '{line}'",
}


def environment(workspace: Workspace) -> dict[str, str]:
    return {
        **workspace.environment(),
        "PATH": f"{Path(FLEETCTL).parent}:{os.environ['PATH']}",
        "HOME": str(workspace.path),
    }


def needs(shell: str) -> None:
    why = missing_programs(shell)
    if why:
        pytest.skip(why)


def completed(workspace: Workspace, shell: str, line: str) -> list[str]:
    """What the shell offers behind a line, without descriptions."""
    needs(shell)
    words = line.split(" ")
    script = SCRIPTS[shell].format(words=" ".join(f"'{w}'" for w in words), at=len(words) - 1, line=line)
    argv = {"bash": ["bash", "--norc", "-c"], "fish": ["fish", "--no-config", "-c"]}[shell]
    done = subprocess.run(
        [*argv, script], cwd=workspace.path, env=environment(workspace), capture_output=True, text=True,
        timeout=RUN_TIMEOUT_S, check=True,
    )  # fmt: skip
    return [text.partition("\t")[0] for text in done.stdout.splitlines() if text]


@pytest.mark.parametrize("shell", SCRIPTS)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fleetctl pla", ["plan"]),
        ("fleetctl state ver", ["verify"]),
        ("fleetctl plan --target ", ["fleet/", "group/", "node/", "host/"]),
        ("fleetctl plan --target node/", ["node/hello/web-0", "node/hello/web-1", "node/hello/web-2"]),
        ("fleetctl plan --target group/", ["group/hello/web"]),
        ("fleetctl cordon ", ["localhost"]),
        ("fleetctl rollback --fleet ", ["hello"]),
        ("fleetctl compat check 1", ["1.0.0", "1.1.0"]),
        ("fleetctl explain fleet.groups.hea", ["fleet.groups.health"]),
        ("fleetctl plan --format j", ["json"]),
    ],
)
def test_words_are_offered(workspace: Workspace, shell: str, line: str, offered: list[str]) -> None:
    assert sorted(completed(workspace, shell, line)) == sorted(offered)


@contextlib.contextmanager
def typing(workspace: Workspace, argv: list[str]) -> Iterator[int]:
    """A shell on a terminal of its own; gives the terminal's other end."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        argv, cwd=workspace.path, env={**environment(workspace), "TERM": "dumb", "PS1": "ready> "},
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        yield master
    finally:
        process.kill()
        process.wait(10)
        os.close(master)


def seen(master: int, text: str, screen: str = "") -> str:
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while text not in screen:
        assert time.monotonic() < deadline, f"waited for {text!r}: {screen!r}"
        if select.select([master], [], [], 0.1)[0]:
            screen += os.read(master, 4096).decode("utf-8", "replace")
    return screen


@pytest.mark.parametrize(
    ("shell", "argv", "before"),
    [
        ("bash", ["bash", "--norc", "--noprofile", "-i"], "PS1='ready> '"),
        ("zsh", ["zsh", "-f", "-i"], "PS1='ready> '; autoload -Uz compinit; compinit -D"),
    ],
)
def test_a_person_presses_tab(workspace: Workspace, shell: str, argv: list[str], before: str) -> None:
    needs(shell)
    with typing(workspace, argv) as master:
        os.write(master, f"{before}; eval \"$(fleetctl completion {shell})\"; echo loa''ded\n".encode())
        seen(master, "loaded")
        os.write(master, b"echo fleetctl; fleetctl unlock hel\t")
        seen(master, "unlock hello")


def test_what_is_broken_or_elsewhere_offers_nothing_and_says_nothing(workspace: Workspace) -> None:
    workspace.write("releases.yaml", "a: [")
    workspace.write("zz.yaml", "kind: Fleet\nname: [x]\ngroups: 7\n---\n- 1\n---\n~\n")
    assert completed(workspace, "bash", "fleetctl plan --target node/hello/") == [
        f"node/hello/web-{n}" for n in range(3)
    ]
    shutil.rmtree(workspace.path / "artifacts")
    for file in workspace.path.glob("*.yaml"):
        file.unlink()
    assert completed(workspace, "bash", "fleetctl rollback --fleet ") == []
    assert completed(workspace, "bash", "fleetctl nothing --fl") == []


def test_a_key_press_loads_no_schema_and_no_command_but_its_own(workspace: Workspace) -> None:
    program = (
        "import atexit, os, sys; from fleetctl.cli.main import main\n"
        "heavy = {'pydantic', 'rich', 'jinja2', 'sqlite3', 'httpx', 'paramiko', 'planner.plan', 'manifests.load'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
        "main([])"
    )
    for words, at in (("fleetctl p", "1"), ("fleetctl plan --target node/", "3")):
        env = {"COMP_WORDS": words, "COMP_CWORD": at, "_FLEETCTL_COMPLETE": "bash_complete"}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=workspace.path, env={**environment(workspace), **env},
            capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.stdout.startswith("plain,"), done
        assert done.stderr == "[]\n"

"""Carries a page out: writes its files and runs its commands in a folder, and compares what they answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from fleetctl.cli.terminal import clean
from tests.acceptance.cli import RUN_TIMEOUT_S, Workspace
from tests.acceptance.terminal import Person
from tests.docs.pages import Shown

_PROMPT = re.compile(r"(?P<question>.*(?:for yes|to go on): )(?P<typed>\S+)")


def environment() -> dict[str, str]:
    """That of a reader who has followed the installation: fleetctl on the path, no settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLEETCTL_", "PYTEST_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def run(command: Shown, workspace: Workspace) -> str:
    """Runs one command and gives all it said; fails when its exit code or answer is not the page's."""
    prompts = [match for line in command.answer if (match := _PROMPT.fullmatch(line))]
    if prompts:
        code, said = _with_a_person(command, workspace, prompts)
    else:
        done = subprocess.run(
            ["sh", "-c", command.line],
            cwd=workspace.path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        code, said = done.returncode, done.stdout
    assert code == command.exit_code, f"$ {command.line}\nexit {code}\n{said}"
    missing = first_missing(command.answer, said)
    assert missing is None, f"$ {command.line}\nnot in the answer: {missing}\n{said}"
    return said


def _with_a_person(command: Shown, workspace: Workspace, prompts: list[re.Match[str]]) -> tuple[int, str]:
    words = command.line.split()
    assert words[0] == "fleetctl", "only fleetctl asks"
    with Person(workspace, *words[1:], columns=200, NO_COLOR="1") as person:
        for prompt in prompts:
            person.see(prompt["question"].rstrip())
            person.type(prompt["typed"] + "\n")
        code = person.end()
        return code, clean(person.screen)


def first_missing(answer: list[str], said: str) -> str | None:
    """The first line of the page that does not follow in what was said; `…` stands for anything on its line."""
    place, flat = 0, " ".join(said.split())
    for line in answer:
        parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
        if not any(parts):
            continue
        found = re.compile(r"[^\n]*?".join(parts)).search(flat, place)
        if found is None:
            return line
        place = found.end()
    return None

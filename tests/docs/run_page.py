"""How a command of a page is run: in a shell, or on a terminal where its questions are answered; and what it has to say."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fleetctl.cli.terminal import clean
from tests.acceptance.terminal import Person, Seat

_PROMPT = re.compile(r"(?P<question>.*(?:for yes|to go on): )(?P<typed>\S+)")
STOP_TIMEOUT_S = 30.0
# What stands before a command's program: the shell becomes that program, so that ending it is ending the program.
_ASSIGNMENTS = re.compile(r"^(?:\w+=\S+ +)*")
_COMMENT = re.compile(r"\s+# [^'\"]*$")


def environment() -> dict[str, str]:
    """That of a reader who has followed the installation: fleetctl on the path, no settings."""
    dropped = ("FLEETCTL_", "PYTEST_", "CELLZ_", "AWS_", "GIT_", "GITHUB_", "MAKE", "MFLAGS")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped) and k != "CI"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def without_comment(line: str) -> str:
    """The line up to the remark that a page makes on it."""
    return _COMMENT.sub("", line)


def prompts(answer: Sequence[str]) -> list[tuple[str, str]]:
    """The questions of an answer as a page shows it, each with what is typed."""
    found = [match for line in answer if (match := _PROMPT.fullmatch(line))]
    return [(match["question"].rstrip(), match["typed"]) for match in found]


def in_shell(line: str, seat: Seat, timeout_s: float) -> tuple[int, str]:
    """The exit code of a line and all it said, stderr among stdout."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=seat.path,
        env=seat.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout


def on_a_terminal(
    line: str, seat: Seat, asked: Sequence[tuple[str, str]], timeout_s: float
) -> tuple[int, str]:
    """The same with a person, who types each answer when its question is on the screen."""
    with Person(seat, "-c", line, program="/bin/sh", columns=200, NO_COLOR="1") as person:
        for question, typed in asked:
            person.see(question, timeout_s)
            person.type(typed + "\n")
        code = person.end(timeout_s)
        return code, clean(person.screen)


class Running:
    """A command in a process group of its own, which goes on while others are run."""

    def __init__(self, line: str, seat: Seat, answer: Sequence[str], log: Path) -> None:
        """Starts it; `answer` is what the page shows of it."""
        self._line = line
        self._answer = answer
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                ["sh", "-c", _ASSIGNMENTS.sub(r"\g<0>exec ", line, count=1)],
                cwd=seat.path,
                env=seat.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def said(self) -> str:
        """All it has said so far, stderr among stdout."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def answered(self) -> bool:
        """Whether it has said what the page shows."""
        return first_missing(self._answer, self.said()) is None

    def check(self) -> None:
        """Fails when it ended by an error, or has not answered as the page shows."""
        code = self._process.poll()
        assert code in (None, 0), f"$ {self._line}\nexit {code}\n{self.said()}"
        assert self.answered(), f"$ {self._line}\nnot what the page shows\n{self.said()}"

    def wait(self) -> int:
        """Waits for its own end; its exit code."""
        return self._process.wait(STOP_TIMEOUT_S)

    def end(self) -> int:
        """Ends it in order, or by force when that takes too long; its exit code."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.wait()
        raise AssertionError(f"it cannot be ended: {self._line}")


def first_missing(answer: Sequence[str], said: str) -> str | None:
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

"""A reader who follows a page: its files and every command of it, in order, and nothing left out.

A test that runs a page is marked with `@follows("docs/…")` and gets its reader as the first argument. The test fails at
its end when a command of the page was not run, and `test_pages_whole.py` fails when a page has no such test.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Concatenate, ParamSpec

from tests.acceptance.cli import RUN_TIMEOUT_S
from tests.docs import run_page
from tests.docs.pages import Block, Shown, blocks, commands
from tests.docs.run_page import Running
from tests.house.sources import ROOT

P = ParamSpec("P")
YES = "Only `yes` is taken for yes:"
NAME = "to go on:"


class Reader:
    """Follows one page in the folder `path`, with the variables `env` beside those that every reader has."""

    def __init__(self, text: str) -> None:
        """Begins at the top of a page's text."""
        self.text = text
        self.path = Path()
        self.env: dict[str, str] = {}
        self.timeout_s = RUN_TIMEOUT_S
        self._count = len(commands(text))
        self._next = 0
        self._running: list[Running] = []

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        for running in reversed(self._running):
            running.end()

    def environment(self) -> dict[str, str]:
        """The variables of a command."""
        return {**run_page.environment(), **self.env}

    # The page

    def put(self, page_says: str, here: str) -> None:
        """Writes something of the reader's own in the place of what the page says, everywhere on it."""
        assert page_says in self.text, f"the page does not say {page_says!r}"
        self.text = self.text.replace(page_says, here)

    def blocks(self, *kinds: str) -> list[Block]:
        """The page's blocks of some kinds, in order."""
        return [block for block in blocks(self.text) if block.kind in kinds]

    def write_files(self) -> list[str]:
        """Saves each block whose first line is `# NAME` under that name; gives the names."""
        named = [(block.file, block) for block in blocks(self.text) if block.file is not None]
        for name, block in named:
            (self.path / name).write_text(block.text, encoding="utf-8")
        return [name for name, _ in named]

    def left(self) -> list[Shown]:
        """The commands that are still to be run."""
        found = commands(self.text)
        assert len(found) == self._count, "what was put into the page made or unmade a command"
        return found[self._next :]

    def done(self) -> None:
        """Fails when a command of the page was not run, or one that goes on did not do what the page shows."""
        left = [command.line for command in self.left()]
        assert not left, f"not run: {left}"
        for running in self._running:
            running.check()

    # The commands

    def run(self, begins: str, *, typed: Iterable[str] = (), more: str = "", code: int | None = None) -> str:
        """Runs the page's next command and gives all it said.

        Args:
            begins: how that command begins, so that a test says which one it means.
            typed: what is answered to its questions, where the page does not show them: `yes`, or a fleet's name.
            more: words that only a test needs, put behind the command's own.
            code: the exit code, where the page says it in its text and not by `echo $?`.

        Fails when it ends with another exit code, or does not answer what the page shows.
        """
        command = self._take(begins)
        line = run_page.without_comment(command.line)
        if more:
            assert not set(line) & set("|>&;"), "further words would go to another command"
            line = f"{line} {more}"
        if line.startswith("export "):
            return self._export(line)
        asked = run_page.prompts(command.answer) or [(YES if t == "yes" else NAME, t) for t in typed]
        if asked:
            exit_code, said = run_page.on_a_terminal(line, self, asked, self.timeout_s)
        else:
            exit_code, said = run_page.in_shell(line, self, self.timeout_s)
        assert exit_code == (command.exit_code if code is None else code), (
            f"$ {line}\nexit {exit_code}\n{said}"
        )
        missing = run_page.first_missing(command.answer, said)
        assert missing is None, f"$ {line}\nnot in the answer: {missing}\n{said}"
        return said

    def run_rest(self) -> list[str]:
        """Runs all that is left, none of which asks anything; gives what each said."""
        return [self.run(command.line) for command in self.left()]

    def start(self, begins: str) -> Running:
        """Starts the page's next command, which goes on while others are run, and is ended with the reader."""
        command = self._take(begins)
        line = run_page.without_comment(command.line).removesuffix("&")
        log = self.path / f"running-{len(self._running)}.log"
        self._running.append(Running(line, self, command.answer, log))
        return self._running[-1]

    def _take(self, begins: str) -> Shown:
        left = self.left()
        assert left, f"the page has no further command; {begins!r} was expected"
        assert left[0].line.startswith(begins), f"the page goes on with {left[0].line!r}, not {begins!r}"
        self._next += 1
        return left[0]

    def _export(self, line: str) -> str:
        name = line.removeprefix("export ").partition("=")[0]
        code, value = run_page.in_shell(f'{line} && printf %s "${name}"', self, self.timeout_s)
        assert code == 0, value
        self.env[name] = value
        return value


def follows(page: str) -> Callable[[Callable[Concatenate[Reader, P], None]], Callable[P, None]]:
    """Marks the test that runs every command of a page, which is named by its path from the project's top."""

    def decorate(test: Callable[Concatenate[Reader, P], None]) -> Callable[P, None]:
        @functools.wraps(test)
        def followed(*args: P.args, **kwargs: P.kwargs) -> None:
            with Reader((ROOT / page).read_text(encoding="utf-8")) as reader:
                test(reader, *args, **kwargs)
                reader.done()

        # pytest looks for fixtures by the names of the arguments; the first is given here.
        signature = inspect.signature(test)
        parameters = list(signature.parameters.values())[1:]
        vars(followed)["__signature__"] = signature.replace(parameters=parameters)
        return followed

    return decorate

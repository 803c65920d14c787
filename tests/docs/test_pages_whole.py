"""No page shows a command that nobody runs: each page with commands is followed by a test, to its end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, KINDS, QUIET, blocks, commands, documentation
from tests.docs.reader import Reader, follows
from tests.house.sources import ROOT, tracked_files

PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in documentation()}
PAGE = """
```console
$ echo one # a remark
one
$ exit 3
$ echo $?
3
```

```sh
printf 'two\\n' >two.txt
```

```
then   sh -c 'test -s two.txt'   it is there
```
"""


def followed() -> Iterator[str]:
    """Every page that a test is marked to follow, by the text: a module may be skipped when it is imported."""
    for path in tracked_files():
        if path.suffix != ".py" or not path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield from (page for mark in node.decorator_list if (page := _page_of(mark)))


def _page_of(mark: ast.expr) -> str | None:
    if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == follows.__name__:
        return str(ast.literal_eval(mark.args[0]))
    return None


def test_each_page_with_commands_is_followed_by_one_test() -> None:
    """There are no exceptions: a command that cannot be run here does not belong into a block."""
    assert sorted(followed()) == sorted(page for page, text in PAGES.items() if commands(text))


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_where_they_are_looked_for(page: str) -> None:
    """Blocks are of kinds whose commands are known, console blocks begin with one, and none stands outside."""
    text = PAGES[page]
    assert {block.kind for block in blocks(text)} <= KINDS.keys() | QUIET
    assert [b.text for b in blocks(text) if b.kind == "console" and not b.text.startswith("$ ")] == []
    assert re.findall(r"^ *(?:\$ |~~~).*$", FENCE.sub("", text), re.M) == []


# --- the reader has teeth --------------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    made = Reader(PAGE)
    made.path = tmp_path
    return made


def test_a_page_is_followed_to_its_end(reader: Reader) -> None:
    assert len(reader.run_rest()) == 4
    reader.done()


def test_a_command_that_was_left_out_is_noticed(reader: Reader) -> None:
    reader.run("echo one")
    with pytest.raises(AssertionError, match="exit 3"):
        reader.done()


@pytest.mark.parametrize(
    ("page_says", "here", "noticed"),
    [
        ("echo one", "echo two", "not in the answer: one"),
        ("$ exit 3", "$ exit 4", "exit 4"),
        ("3\n```", "0\n```", "exit 3"),
        ("$ exit 3\n$ echo $?\n3\n", "$ exit 3\n$ true\n", "exit 3"),
        (">two.txt", ">three.txt", "exit 1"),
    ],
)
def test_a_command_that_does_something_else_is_noticed(
    reader: Reader, page_says: str, here: str, noticed: str
) -> None:
    changed = Reader(PAGE.replace(page_says, here))
    changed.path = reader.path
    with pytest.raises(AssertionError, match=noticed):
        changed.run_rest()


def test_commands_are_run_in_the_order_of_the_page(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="the page goes on with 'echo one"):
        reader.run("exit 3")


def test_only_what_the_page_says_is_replaced(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="the page does not say 'four'"):
        reader.put("four", "five")


def test_a_command_that_goes_on_must_not_fail(tmp_path: Path) -> None:
    with Reader("```console\n$ sh -c 'exit 5' &\n$ sleep 0\n```\n") as reader:
        reader.path = tmp_path
        running = reader.start("sh -c")
        running.wait()
        reader.run_rest()
        with pytest.raises(AssertionError, match="exit 5"):
            reader.done()

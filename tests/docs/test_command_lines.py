"""Every fleetctl and cellz line of the documentation parses: its command, options, choices, and so many arguments."""

from __future__ import annotations

import re
import shlex
import tomllib

import click
import pytest

from fleetctl.cellz.cli import cli as cellz
from fleetctl.cli.main import cli as fleetctl
from tests.docs.pages import command_lines, documentation, inline
from tests.house.sources import ROOT

# What a page writes where the reader puts something of their own in; any text will do for parsing.
_PLACE = re.compile(r"\[[^\]]*\]|…|\.\.\.")
# A redirection, a further command or a comment is the shell's.
_SHELL = re.compile(r"\s(?:#|\||&&|>|<|;)(?:\s.*|$)")
_PROGRAMS: dict[str, click.Command] = {"fleetctl": fleetctl, "cellz": cellz}
_LINES = [
    (page.relative_to(ROOT).as_posix(), line)
    for page in documentation()
    for line in dict.fromkeys(command_lines(page.read_text(encoding="utf-8")))
]


def words(line: str) -> list[str]:
    """The words of a command line, as the shell would hand them over."""
    plain = _SHELL.sub("", line)
    return [word for word in shlex.split(_PLACE.sub(" ", plain)) if word]


def wrong(line: str) -> str | None:
    """What click does not take of a line: a command, an option, an argument too many, a word that is no choice."""
    program, *rest = words(line)
    command = root = _PROGRAMS[program]
    context = click.Context(command, info_name=program)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        try:
            inner = command.get_command(context, rest[0])
        except click.UsageError as error:
            return error.format_message()
        if inner is None:
            return f"no command {rest[0]}"
        command, rest = inner, rest[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    if isinstance(command, click.Group) and command is not root and not rest:
        return None  # the page speaks of the group
    try:
        given, left, _ = command.make_parser(context).parse_args(rest)
        for parameter in command.params:
            value = given.get(parameter.name or "")
            if isinstance(parameter.type, click.Choice) and isinstance(value, str):
                for choice in value.split("|"):
                    parameter.type.convert(choice, parameter, context)
    except click.UsageError as error:
        return error.format_message()
    return f"too many arguments: {left}" if left else None


@pytest.mark.parametrize(("page", "line"), _LINES, ids=[f"{page}: {line}" for page, line in _LINES])
def test_command_line_exists(page: str, line: str) -> None:
    assert wrong(line) is None, f"{page}: {line}"


def test_lines_are_found_at_all() -> None:
    """The README, the tutorial, the page of cellz and each how-to page show some."""
    with_lines = {page for page, _ in _LINES}
    how_to = {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "docs" / "how-to").glob("*.md")
        if "fleetctl " in p.read_text(encoding="utf-8")
    }
    assert with_lines >= {
        "README.md",
        "docs/tutorial.md",
        "docs/cellz.md",
        "docs/reference/cli.md",
        *how_to,
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fleetctl plam .", "plam"),
        ("fleetctl plan --no-such . | tee x", "--no-such"),
        ("fleetctl state melt", "melt"),
        ("fleetctl state migrate A B --bad=1", "--bad"),
        ("fleetctl show a.plan b.plan", "too many"),
        ("fleetctl plan --format crayon", "crayon"),
        ("fleetctl plan --out", "--out"),
        ("cellz serve --no-such 1", "--no-such"),
        ("cellz melt", "melt"),
    ],
)
def test_a_line_that_does_not_parse_is_noticed(line: str, said: str) -> None:
    assert said in (wrong(line) or "")


def test_what_the_shell_takes_is_not_parsed() -> None:
    assert wrong("fleetctl plan . # --no-such") is None
    assert wrong("fleetctl schema > --no-such") is None


_PROSE = [
    (page.relative_to(ROOT).as_posix(), text)
    for page in documentation()
    for text in dict.fromkeys(inline(page.read_text(encoding="utf-8")))
]


def test_targets_modules_and_extras_that_prose_names_exist() -> None:
    """Between backticks: `make TARGET`, `python -m tests.MODULE`, `pip install 'fleetctl[EXTRA]'`, `sh FILE`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    seen = 0
    for page, text in _PROSE:
        program, *rest = text.split()
        if program == "make":
            assert rest[0] in targets, f"{page}: {text}"
        elif text.startswith("python -m tests."):
            path = ROOT / rest[1].replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), f"{page}: {text}"
        elif text.startswith("python -m pytest"):
            files = [word for word in rest if word.startswith("tests/")]
            assert [file for file in files if not (ROOT / file).exists()] == [], f"{page}: {text}"
        elif extra := re.fullmatch(r"pip install '?fleetctl\[(\w+)\]'?", text):
            assert extra[1] in project["optional-dependencies"], f"{page}: {text}"
        else:
            continue
        seen += 1
    assert seen > 15

"""The command line's page names every command and option, and nothing that is not there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest

from fleetctl.cli.main import COMMANDS, cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def options(command: click.Command) -> set[str]:
    """Those of a command, and of the commands inside it."""
    own = {o for p in command.params if isinstance(p, click.Option) for o in p.opts if o.startswith("--")}
    inner = command.commands.values() if isinstance(command, click.Group) and command is not cli else ()
    return own.union(*(options(c) for c in inner))


def of(name: str) -> click.Command:
    command: click.Command = importlib.import_module(f"fleetctl.cli.commands.{name}").command
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_on_the_page(name: str) -> None:
    command = of(name)
    inner = [f" {verb}" for verb in command.commands] if isinstance(command, click.Group) else [""]
    headings = [line for line in PAGE.splitlines() if line.startswith("### ")]
    assert [v for v in inner if not any(f"`fleetctl {name}{v}" in line for line in headings)] == []
    assert [o for o in sorted(options(of(name))) if f"`{o}" not in PAGE and f" {o}" not in PAGE] == []


def test_no_option_is_named_that_is_not_there() -> None:
    known = {"--version", "--help"} | options(cli)
    for name in COMMANDS:
        known |= options(of(name))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - known == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_is_the_same_in_both_places(name: str) -> None:
    """The group shows it without importing the command."""
    assert of(name).short_help == COMMANDS[name]

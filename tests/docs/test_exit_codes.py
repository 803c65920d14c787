"""The page of exit codes: every command has its row, and says nothing that another place contradicts."""

from __future__ import annotations

import gc
import re
import signal
from collections.abc import Iterator

import pytest

from fleetctl.cli.main import COMMANDS, main
from manifests.errors import ExitCode
from tests.docs.error_codes import written
from tests.house.sources import ROOT

PAGE = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
# What the reference says that a later run of another command will end with.
LATER = {"state": {6}, "cordon": {7}, "uncordon": {7}, "move": {7}}


def rows() -> dict[str, set[int]]:
    """Command -> the exit codes that its row names."""
    found: dict[str, set[int]] = {}
    table = PAGE.partition("| command | ends with |")[2]
    for names, text in re.findall(r"^\| (`[^|]*`) \| (.*) \|$", table, re.M):
        for name in re.findall(r"`([a-z]+)`", names):
            assert name not in found, f"{name} has two rows"
            found[name] = {int(number) for number in re.findall(r"(?<![\w.-])\d+\b", text)}
    return found


def test_every_command_has_one_row() -> None:
    assert set(rows()) == set(COMMANDS)


def test_rows_name_codes_of_the_one_table() -> None:
    assert set().union(*rows().values()) <= {int(code) for code in ExitCode}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_reference_says_of_a_command_is_in_its_row(name: str) -> None:
    """`exit 3` and the like below the command's heading."""
    parts = [p for p in re.split(r"^### ", REFERENCE, flags=re.M) if p.startswith(f"`fleetctl {name}")]
    text = " ".join(" ".join(parts).split()).partition(" ## ")[0]
    said = {int(number) for number in re.findall(r"\b[Ee]xit(?:s)? (\d+)", text)}
    said -= LATER.get(name, set()) | {0, 1, 130, 143}
    assert name == "store" or said <= rows()[name]


def test_every_exit_code_of_an_error_is_some_commands() -> None:
    """The error tree's codes are in the table of codes, and some row has them."""
    raised = {int(one.exit_code) for one in written() if one.room == "error"}
    assert raised - {0, 1} <= set().union(*rows().values())


@pytest.fixture
def _kept_signals() -> Iterator[None]:
    """The entry point sets handlers and freezes the collector; a test's process goes on."""
    kept = {
        number: signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    }
    yield
    gc.unfreeze()
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_kept_signals")
@pytest.mark.parametrize("name", COMMANDS)
def test_usage_errors_of_every_command_exit_1(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--no-such-option"]) == ExitCode.ERROR
    assert "Error: " in capsys.readouterr().err


@pytest.mark.usefixtures("_kept_signals")
@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_exits_0(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == ExitCode.OK
    assert "Usage: fleetctl " + name in capsys.readouterr().out

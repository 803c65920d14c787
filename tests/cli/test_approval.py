"""Nobody approves a loss without having it before the eyes: the question repeats what cannot be brought back."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from fleetctl.cli.approval import NotApproved, approve, approve_end
from fleetctl.cli.terminal import PLAIN, Terminal

LOST = "This cannot be brought back afterwards:\n  node/hello/web-9: its data, 1 snapshot (before)"
Ask = Callable[[Terminal, str], None]


def by_yes(terminal: Terminal, losses: str) -> None:
    approve(terminal, "Carry this out?", auto=False, losses=losses)


def by_name(terminal: Terminal, losses: str) -> None:
    approve_end(terminal, ["hello"], auto=False, losses=losses)


def terminal_of(monkeypatch: pytest.MonkeyPatch, answer: str) -> tuple[Terminal, io.StringIO]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
    said = io.StringIO()
    return Terminal(io.StringIO(), said, PLAIN, PLAIN, interactive=True), said


@pytest.mark.parametrize(("ask", "answer"), [(by_yes, "yes"), (by_name, "hello")])
def test_losses_stand_right_before_the_question(
    monkeypatch: pytest.MonkeyPatch, ask: Ask, answer: str
) -> None:
    terminal, said = terminal_of(monkeypatch, answer)
    ask(terminal, LOST)
    assert said.getvalue().startswith(f"\n{LOST}\n")
    assert "Carry this out?" in said.getvalue() or "Type the fleet's name" in said.getvalue()


@pytest.mark.parametrize("ask", [by_yes, by_name])
def test_another_answer_approves_nothing(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    terminal, said = terminal_of(monkeypatch, "y")
    with pytest.raises(NotApproved, match="nothing was changed"):
        ask(terminal, "")
    assert not said.getvalue().startswith("\n\n"), "without losses the question stands alone"

"""Nobody approves a loss without having it before the eyes: the question shows it, and wants more than a yes."""

from __future__ import annotations

import io
import sys

import pytest

from fleetctl.cli.approval import SHOWN_MAX, NotApproved, approve, approve_plan
from fleetctl.cli.terminal import PLAIN, Terminal
from planner.change import Action
from planner.plan import Plan
from tests.cli.plans import change, fleet_plan, plan, step, upgrade

GONE = change("web-9", Action.DESTROY, data_lost=True, losses=("1 snapshot (before)",))


def terminal_of(monkeypatch: pytest.MonkeyPatch, *answers: str) -> tuple[Terminal, io.StringIO]:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{a}\n" for a in answers)))
    said = io.StringIO()
    return Terminal(io.StringIO(), said, PLAIN, PLAIN, interactive=True), said


def of(*changes: object) -> Plan:
    return plan(fleet_plan(changes, [step(0, "web-0")]))  # type: ignore[arg-type]


def test_what_is_lost_stands_before_the_question_and_only_the_name_approves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, said = terminal_of(monkeypatch, "hello")
    approve_plan(terminal, of(GONE), "Carry this out?", auto=False)
    text = said.getvalue()
    assert text.startswith(
        "\nThis takes 1 node down for good and loses what 1 node kept:\n  node/hello/web-9 (generation 2 of "
    )
    assert (
        "its data is removed and cannot be brought back; 1 snapshot (before) cannot be brought back" in text
    )
    assert text.endswith("\nType the name of fleet/hello to go on: ")


@pytest.mark.parametrize("answer", ["yes", "", "y", "Hello"])
def test_nothing_else_is_the_name(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    terminal, _ = terminal_of(monkeypatch, answer)
    with pytest.raises(NotApproved, match="nothing was changed"):
        approve_plan(terminal, of(GONE), "Carry this out?", auto=False)


def test_a_change_that_loses_nothing_wants_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, said = terminal_of(monkeypatch, "yes", "y")
    approve_plan(terminal, of(upgrade("web-0")), "Carry this out?", auto=False)
    assert said.getvalue() == "\nCarry this out? Only `yes` is taken for yes: "
    with pytest.raises(NotApproved):
        approve(terminal, "Carry this out?", auto=False)


def test_every_fleet_that_loses_something_is_named_and_what_has_gone_already_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = plan(fleet_plan([GONE], [step(0, "web-9")]), fleet_plan([GONE], [step(0, "web-9")], fleet="other"))
    terminal, said = terminal_of(monkeypatch, "hello", "other")
    approve_plan(terminal, two, "?", auto=False)
    assert said.getvalue().count("Type the name of") == 2
    terminal, _ = terminal_of(monkeypatch, "yes")
    approve_plan(terminal, two, "?", auto=False, gone={GONE.uid})


def test_a_long_list_is_cut_with_what_is_lost_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [change(f"web-{n}", Action.DESTROY) for n in range(SHOWN_MAX + 5)]
    terminal, said = terminal_of(monkeypatch, "hello")
    approve_plan(terminal, of(*ends, GONE), "?", auto=False)
    assert "web-9 (" in said.getvalue().splitlines()[2]
    assert "… and 6 more, 0 of which lose data" in said.getvalue()


def test_machines_are_not_asked_and_nobody_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, said = terminal_of(monkeypatch)
    approve_plan(terminal, of(GONE), "?", auto=True)
    assert said.getvalue() == ""
    terminal.interactive = False
    with pytest.raises(NotApproved) as e:
        approve_plan(terminal, of(GONE), "?", auto=False)
    assert "--auto-approve" in (e.value.hint or "")

"""Asking before acting: yes for a change, the fleet's name for what ends or is lost. Machines say --auto-approve."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from fleetctl.cli.terminal import Terminal, clean
from manifests.errors import FleetctlError

if TYPE_CHECKING:
    from planner.endings import Ending
    from planner.plan import Plan

# Nobody reads further; what is lost for good stands first.
SHOWN_MAX = 20


class NotApproved(FleetctlError):
    """Nobody approved what was shown, so nothing was done."""

    code = "approval.missing"


def approve(terminal: Terminal, question: str, *, auto: bool) -> None:
    """Wants `yes`. Raises NotApproved."""
    if auto:
        return
    _ensure_somebody_is_there(terminal)
    answer = terminal.ask(f"\n{question} Only `yes` is taken for yes: ")
    if answer != "yes":
        raise NotApproved("not approved; nothing was changed")


def approve_plan(
    terminal: Terminal, plan: Plan, question: str, *, auto: bool, gone: Collection[str] = ()
) -> None:
    """Wants `yes`; where nodes end or lose something, shows them and wants each fleet's name instead.

    `gone` are the uids that have ended already, when a plan is carried on. Raises NotApproved.
    """
    from planner.endings import endings

    found = [ending for ending in endings(plan) if ending.uid not in gone]
    if not found:
        approve(terminal, question, auto=auto)
        return
    if auto:
        return
    _ensure_somebody_is_there(terminal)
    terminal.say(f"\n{terminal.err_paint('red bold', _heading(found))}")
    for ending in found[:SHOWN_MAX]:
        style = "red" if ending.lost else "yellow"
        terminal.say(f"  {terminal.err_paint(style, _line(ending))}")
    if len(found) > SHOWN_MAX:
        rest = found[SHOWN_MAX:]
        terminal.say(f"  … and {len(rest)} more, {sum(ending.lost for ending in rest)} of which lose data")
    _want_names(terminal, dict.fromkeys(ending.fleet for ending in found))


def _want_names(terminal: Terminal, fleets: Iterable[str]) -> None:
    for fleet in fleets:
        answer = terminal.ask(f"\nType the name of fleet/{fleet} to go on: ")
        if answer != fleet:
            raise NotApproved(
                f"{clean(answer or 'nothing')!r} is not the name {fleet!r} of the fleet; nothing was changed"
            )


def _heading(found: Collection[Ending]) -> str:
    ending, losing = sum(ending.ends for ending in found), sum(ending.lost for ending in found)
    parts = [f"takes {_nodes(ending)} down for good"] if ending else []
    parts += [f"loses what {_nodes(losing)} kept"] if losing else []
    return f"This {' and '.join(parts)}:"


def _line(ending: Ending) -> str:
    version = f", {ending.version}" if ending.version else ""
    return clean(
        f"node/{ending.fleet}/{ending.node} (generation {ending.generation} of {ending.uid}{version}) on {ending.host}: {ending.what}"
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _ensure_somebody_is_there(terminal: Terminal) -> None:
    if not terminal.interactive:
        raise NotApproved(
            "there is no terminal to ask on, and nothing was approved; nothing was changed",
            hint="read the plan above; machines approve with --auto-approve, or apply a saved plan: "
            "fleetctl plan --out FILE, then fleetctl apply FILE --auto-approve",
        )

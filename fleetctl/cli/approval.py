"""Asking before acting: yes for a change, the fleet's name for an end. Machines say --auto-approve."""

from __future__ import annotations

from collections.abc import Iterable

from fleetctl.cli.terminal import Terminal
from manifests.errors import FleetctlError


class NotApproved(FleetctlError):
    """Nobody approved what was shown, so nothing was done."""

    code = "approval.missing"


def approve(terminal: Terminal, question: str, *, auto: bool, losses: str = "") -> None:
    """Wants `yes`, right after `losses` (what cannot be brought back, none if empty). Raises NotApproved."""
    if auto:
        return
    _ensure_somebody_is_there(terminal)
    answer = terminal.ask(f"\n{_before(losses)}{question} Only `yes` is taken for yes: ")
    if answer != "yes":
        raise NotApproved("not approved; nothing was changed")


def approve_end(terminal: Terminal, fleets: Iterable[str], *, auto: bool, losses: str = "") -> None:
    """Wants each fleet's name typed, right after `losses` as above. Raises NotApproved."""
    if auto:
        return
    _ensure_somebody_is_there(terminal)
    for fleet in fleets:
        answer = terminal.ask(
            f"\n{_before(losses)}This takes down what is listed of fleet/{fleet}. Type the fleet's name to go on: "
        )
        if answer != fleet:
            raise NotApproved(f"{answer or 'nothing'!r} is not the fleet's name; nothing was changed")


def _before(losses: str) -> str:
    return f"{losses}\n" if losses else ""


def _ensure_somebody_is_there(terminal: Terminal) -> None:
    if not terminal.interactive:
        raise NotApproved(
            "there is no terminal to ask on, and nothing was approved; nothing was changed",
            hint="read the plan above; machines approve with --auto-approve, or apply a saved plan: "
            "fleetctl plan --out FILE, then fleetctl apply FILE --auto-approve",
        )

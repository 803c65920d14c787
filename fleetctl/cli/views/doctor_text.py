"""What doctor found, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from executors.checkup import Check, Weight
from fleetctl.cli.terminal import PLAIN, Paint, one_line

FORMAT_VERSION = "1.0"
_MARKS = {
    Weight.OK: ("ok", "green"),
    Weight.WARNING: ("warn", "yellow"),
    Weight.PROBLEM: ("fail", "red bold"),
}
Found = Mapping[str, Sequence[Check]]


def render(found: Found, paint: Paint = PLAIN) -> str:
    """Place by place, each check with its mark, and what to do where something is wrong."""
    lines: list[str] = []
    for place, checks in found.items():
        lines += [paint("bold", place)]
        for check in checks:
            mark, style = _MARKS[check.weight]
            lines.append(f"  {paint(style, f'{mark:<4}')}  {check.name}: {one_line(check.said)}")
            if check.fix and check.weight is not Weight.OK:
                lines.append(f"        {paint('cyan', 'Fix:')} {one_line(check.fix)}")
        lines.append("")
    problems, warnings = count(found, Weight.PROBLEM), count(found, Weight.WARNING)
    if problems or warnings:
        style = "red bold" if problems else "yellow bold"
        lines.append(paint(style, f"{_number(problems, 'problem')}, {_number(warnings, 'warning')}."))
    else:
        lines.append(paint("green bold", "Everything that was looked at is well."))
    return "\n".join(lines)


def document(found: Found) -> dict[str, Any]:
    """`{format_version, problems, warnings, places: [{place, checks: [{name, result, detail, fix}]}]}`."""
    return {
        "format_version": FORMAT_VERSION,
        "problems": count(found, Weight.PROBLEM),
        "warnings": count(found, Weight.WARNING),
        "places": [
            {
                "place": place,
                "checks": [
                    {"name": c.name, "result": c.weight.value, "detail": c.said, "fix": c.fix} for c in checks
                ],
            }
            for place, checks in found.items()
        ],
    }


def count(found: Found, weight: Weight) -> int:
    return sum(c.weight is weight for checks in found.values() for c in checks)


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

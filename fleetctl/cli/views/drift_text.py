"""Drift for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line
from fleetctl.cli.views.wording import value as value_text
from planner.drift import Drifted, FleetDrift

FORMAT_VERSION = "1.0"
# More names than this in one line are counted.
NAMES_MAX = 6
_HEADINGS = {
    "changed": "was changed on {host}",
    "gone": "is not on {host} any more",
    "stranger": "is on {host}, and nothing records it",
    "returned": "was destroyed, and is on {host} again",
    "foreign": "on {host} was acted on by another state, or an older copy of this one",
}


def render(fleets: Sequence[FleetDrift], paint: Paint = PLAIN) -> str:
    """Every drifted node with what differs, then what could not be told, and what is pending."""
    blocks = [_fleet(f, paint) for f in fleets]
    count = sum(len(f.drifted) for f in fleets)
    unseen = sum(len(names) for f in fleets for names in f.unseen.values())
    if count:
        end = paint(
            "yellow bold",
            f"Drift: {count} node{'s are' if count > 1 else ' is'} not as fleetctl left {'them' if count > 1 else 'it'}.",
        )
    elif unseen:
        end = paint(
            "yellow bold",
            f"No drift in what was seen; {unseen} node{'s' if unseen > 1 else ''} could not be.",
        )
    else:
        end = paint("green bold", "No drift. Every node is as fleetctl left it.")
    return "\n\n".join([*(b for b in blocks if b), end])


def _fleet(fleet: FleetDrift, paint: Paint) -> str:
    lines = []
    for node in fleet.drifted:
        heading = _HEADINGS[node.kind].format(host=node.host)
        lines.append(f"{paint('yellow', '!')} {paint('bold', f'node/{fleet.fleet}/{node.node}')} {heading}")
        lines += [f"    {_reason(node, n)}" for n in range(len(node.reasons))]
    for host, names in fleet.unseen.items():
        lines.append(f"? host/{host} was not seen: {_names(names)}")
    lines += [f"? not checked: {one_line(text)}" for text in fleet.unchecked]
    if fleet.pending:
        text = f"Pending by the manifests, and no drift: {_names(fleet.pending)} (fleetctl plan)"
        lines.append(paint("dim", text))
    return (
        "\n".join([paint("bold", f"fleet/{fleet.fleet}"), *(f"  {line}" for line in lines)]) if lines else ""
    )


def _reason(node: Drifted, number: int) -> str:
    reason = node.reasons[number]
    name = reason.field or reason.code
    if reason.before is None and reason.after is None:
        return clean(reason.code)
    return f"{name}: {value_text(name, reason.before)} -> {value_text(name, reason.after)}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def document(fleets: Sequence[FleetDrift], taken_at: str) -> dict[str, Any]:
    """`{format_version, observed_at, drift, fleets: [{fleet, drifted, pending, unseen, unchecked}]}`."""
    return {
        "format_version": FORMAT_VERSION,
        "observed_at": taken_at,
        "drift": any(f.drifted for f in fleets),
        "fleets": [
            {
                "fleet": f.fleet,
                "drifted": [
                    {
                        "node": d.node,
                        "uid": d.uid,
                        "host": d.host,
                        "kind": d.kind,
                        "reasons": [
                            {"code": r.code, "field": r.field, "recorded": r.before, "observed": r.after}
                            for r in d.reasons
                        ],
                    }
                    for d in f.drifted
                ],
                "pending": list(f.pending),
                "unseen": {host: list(names) for host, names in f.unseen.items()},
                "unchecked": list(f.unchecked),
            }
            for f in fleets
        ],
    }

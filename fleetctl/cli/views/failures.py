"""Why a rollout failed, node by node: what was asked, the last answer, how it is, its last words, and what to do next.

node/hello/web-0 failed: not healthy after 15 s
  step         verify, on localhost
  probe        GET /health on port 18080
  last answer  503 Service Unavailable from /health
  found        running
  the last lines of its own output:
    web-0 | cannot open the store
  more         fleetctl logs web-0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line

if TYPE_CHECKING:
    from fleetctl.engine.events import Report
    from planner.plan import Plan

# More failed nodes than this fail for the same reason.
NODES_MAX = 3
LOG_LINES_MAX = 15
Key = tuple[str, str]


def render(
    plan: Plan, failed: Mapping[Key, Report], evidence: Mapping[Key, Report], paint: Paint = PLAIN
) -> str:
    """A block for each of the first failed nodes, and how many more there are; empty when none failed."""
    order = [key for key in failed if key in evidence] + [key for key in failed if key not in evidence]
    blocks, told = [], set()
    for key in order[:NODES_MAX]:
        log = tuple(_log(evidence.get(key)))
        again = bool(log) and log in told
        told.add(log)
        blocks.append(
            "\n".join(_node(plan, key, failed[key], evidence.get(key), () if again else log, paint))
        )
    if len(order) > NODES_MAX:
        blocks.append(f"{len(order) - NODES_MAX} more failed; what became of each is said above.")
    return "\n\n".join(blocks)


def _node(
    plan: Plan, key: Key, failure: Report, found: Report | None, log: tuple[str, ...], paint: Paint
) -> list[str]:
    fleet, node = key
    facts: Mapping[str, Any] = failure.facts
    reason = clean(str(facts.get("why", failure.text)))
    first = one_line(reason.splitlines()[0]) if reason.strip() else "no reason was given"
    lines = [f"{paint('red bold', f'node/{fleet}/{node} failed:')} {first}"]
    rows = [("step", f"{facts['step']} on {facts['host']}")] if facts else []
    rows += [
        (name, facts[key]) for name, key in (("probe", "probe"), ("last answer", "answer")) if facts.get(key)
    ]
    if found is not None and found.facts["state"]:
        rows.append(("found", _found(found.facts)))
    lines += [f"  {name.ljust(11)}  {one_line(str(value))}" for name, value in rows]
    if log:
        lines.append(f"  the last lines of node/{fleet}/{node}'s own output:")
        lines += [paint("dim", f"    {node} | {line}") for line in log]
    elif found is not None and not found.facts["log"]:
        lines.append("  it has left no output")
    lines.append(f"  {'more'.ljust(11)}  {_next(plan, key)}")
    return lines


def _found(facts: Mapping[str, Any]) -> str:
    """`exited, exit status 3: out of memory`"""
    ended = "" if facts["exit_code"] is None else f", exit status {facts['exit_code']}"
    return f"{facts['state']}{ended}" + (f": {facts['detail']}" if facts["detail"] else "")


def _log(report: Report | None) -> list[str]:
    return [] if report is None else clean(str(report.facts["log"])).splitlines()[-LOG_LINES_MAX:]


def _next(plan: Plan, key: Key) -> str:
    """The command that shows more of the node."""
    fleet, node = key
    name = node if len(plan.fleets) == 1 else f"{fleet}/{node}"
    return f"fleetctl logs {name}"

"""The journal for auditors: is it whole, and who did what, when, from which plan, with which outcome.

What a node's own record or substrate said and what the engine claims are kept apart as sources, so that
one can be held against the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fleetctl.ledger.entries import Entry, Kind
from fleetctl.ledger.operations import By
from fleetctl.ledger.ports import Head, Journal
from fleetctl.ledger.replay import replay

FORMAT_VERSION = "1.0"
SOURCES = {
    By.ENGINE.value: "engine",
    By.ANSWER.value: "node",
    By.LOOKUP.value: "node",
    By.OPERATOR.value: "operator",
}
_SAID_ELSEWHERE = frozenset(
    {"v", "fleet", "lineage", "sequence", "prev_sha256", "at", "run", "epoch", "kind"}
)


@dataclass(frozen=True, slots=True)
class Verified:
    """A fleet's journal that was proven whole, up to `head`."""

    fleet: str
    head: Head
    runs: int
    operations: int
    unsettled: int


def verify(journal: Journal, fleet: str) -> Verified:
    """Proves every link of the chain and every move of every operation. Raises StateError at the place of damage."""
    entries = list(journal.read(fleet))
    replayed = replay(fleet, entries)
    return Verified(
        fleet=fleet,
        head=journal.head(fleet),
        runs=len(replayed.runs),
        operations=sum(len(r.attempts) for r in replayed.runs),
        unsettled=0 if replayed.open_run is None else len(replayed.open_run.unsettled),
    )


def export(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """One flat record an entry, in order: when, who, what, plan, outcome, evidence by source."""
    who: dict[str, str] = {}
    plans: dict[str, str] = {}
    for entry in entries:
        run, kind = entry["run"], entry["kind"]
        if kind == Kind.RUN_STARTED.value:
            who[run], plans[run] = entry["who"], entry["plan_id"]
        line: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "at": entry["at"],
            "fleet": entry["fleet"],
            "sequence": entry["sequence"],
            "run": run,
            "epoch": entry["epoch"],
            "who": entry.get("who") or who.get(run, ""),
            "plan_id": plans.get(run, ""),
            "what": kind,
        }
        if kind == Kind.OPERATION.value:
            line |= _operation(entry)
        else:
            line |= {"outcome": entry.get("result", ""), "source": "engine", "facts": _facts(entry)}
        yield line


def _operation(entry: Entry) -> dict[str, Any]:
    source = SOURCES.get(entry["by"], entry["by"])
    return {
        "what": entry["effect"],
        "node": entry["node"],
        "uid": entry["uid"],
        "generation": entry["generation"],
        "operation_id": entry["operation_id"],
        "attempt": entry["attempt"],
        "request_sha256": entry["request_sha256"],
        "outcome": entry["state"],
        "source": source,
        "by": entry["by"],
        "facts": entry["evidence"],
    }


def _facts(entry: Entry) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in _SAID_ELSEWHERE and k not in ("who", "spec")}

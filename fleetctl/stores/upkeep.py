"""Verifying a whole state: every chain, every move, every document, and what its store says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetctl.ledger import audit
from fleetctl.ledger.ports import Store
from fleetctl.ledger.replay import replay
from fleetctl.stores.s3 import S3Store
from fleetctl.stores.transfer import documents_of, moved_to
from manifests.errors import FleetctlError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one fleet; `problems` is empty when all of it is whole."""

    fleet: str
    entries: int
    head_sha256: str
    lineage: str | None
    runs: int
    open_run: str | None
    documents: int
    moved_to: str | None
    problems: tuple[str, ...]


def verify(store: Store, fleets: Sequence[str]) -> list[Verdict]:
    """Reads and proves everything; damage of one fleet does not hide another's. Raises StateError where nothing can be read."""
    found = [_verify(store, fleet) for fleet in fleets]
    if found and store.secrets_key() is None:
        found[0] = _with(found[0], "the key of secret digests is gone: every secret will look changed")
    return found


def _verify(store: Store, fleet: str) -> Verdict:
    problems: list[str] = []
    entries, sha256, lineage, runs, open_run, documents, moved = 0, "", None, 0, None, 0, None
    try:
        head = store.head(fleet)
        entries, sha256, lineage = head.sequence, head.sha256, head.lineage
        audit.verify(store, fleet)
        journal = list(store.read(fleet))
        replayed = replay(fleet, journal)
        runs = len(replayed.runs)
        open_run = None if replayed.open_run is None else replayed.open_run.run
        named = documents_of(journal)
        documents = len(named)
        for digest in named:
            try:
                store.get(digest)
            except FleetctlError as e:
                problems.append(e.message)
        if isinstance(store, S3Store):
            problems.extend(store.problems(fleet))
        moved = moved_to(store.current(fleet))
    except FleetctlError as e:
        problems.append(e.message)
    return Verdict(fleet, entries, sha256, lineage, runs, open_run, documents, moved, tuple(problems))


def _with(verdict: Verdict, problem: str) -> Verdict:
    return replace(verdict, problems=(*verdict.problems, problem))

"""The store that forgets: for tests and the simulator, held to the same conformance suite as the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from executors.clock import Clock, rfc3339
from fleetctl.ledger.entries import decode, encode, sha256_hex, verified
from fleetctl.ledger.ports import Head, Holder, JournalConflict, Lease, StateError
from fleetctl.stores import judgement
from fleetctl.stores.judgement import Row, Sighting
from fleetctl.stores.processes import Processes
from manifests.digest import sha256

START = Head()


class MemoryStore:
    """All ports of a state, in this process only. Safe for use by several threads."""

    def __init__(self, clock: Clock, processes: Processes) -> None:
        self._clock = clock
        self._processes = processes
        self._lock = RLock()
        self._journals: dict[str, list[tuple[bytes, str]]] = {}
        self._heads: dict[str, Head] = {}
        self._leases: dict[str, Row] = {}
        self._sightings: dict[str, Sighting] = {}
        self._documents: dict[str, bytes] = {}
        self._key: bytes | None = None

    def fleets(self) -> Sequence[str]:
        with self._lock:
            return sorted(self._journals)

    def head(self, fleet: str) -> Head:
        with self._lock:
            return self._heads.get(fleet, START)

    def read(self, fleet: str, after: int = 0) -> Iterable[Mapping[str, Any]]:
        with self._lock:
            rows = list(self._journals.get(fleet, ()))
        before = START if after == 0 else Head(after, rows[after - 1][1])
        return verified(rows[after:], fleet, before)

    def append(self, fleet: str, expected: int, entries: Sequence[Mapping[str, Any]], epoch: int) -> Head:
        with self._lock:
            row = self._leases.get(fleet)
            if row is not None and epoch < row.epoch:
                raise judgement.fenced(fleet, epoch, row.epoch)
            head = self._heads.get(fleet, START)
            rows, head = chained(fleet, head, expected, entries)
            self._journals.setdefault(fleet, []).extend(rows)
            self._heads[fleet] = head
            return head

    def acquire(self, fleet: str, holder: Holder, ttl_s: float) -> Lease:
        with self._lock:
            row, now_s = self._leases.get(fleet), self._clock.monotonic()
            sighting = self._sightings.get(fleet)
            if not judgement.may_take(row, sighting, self._processes, now_s):
                assert row is not None and row.lease is not None
                self._sightings[fleet] = judgement.sighted(row, sighting, self._processes.machine(), now_s)
                raise judgement.held(row.lease)
            at = rfc3339(self._clock.now())
            floor = epoch_of(self._journals.get(fleet, [])[-1:])
            row = judgement.granted(row, fleet, holder, ttl_s, self._clock.new_id(), at, floor=floor)
            self._leases[fleet] = row
            self._sightings.pop(fleet, None)
            assert row.lease is not None
            return row.lease

    def renew(self, lease: Lease) -> Lease:
        with self._lock:
            row = judgement.renewed(self._leases.get(lease.fleet), lease, rfc3339(self._clock.now()))
            self._leases[lease.fleet] = row
            assert row.lease is not None
            return row.lease

    def release(self, lease: Lease) -> None:
        with self._lock:
            row = self._leases.get(lease.fleet)
            if row is not None and row.lease is not None and row.lease.lease_id == lease.lease_id:
                self._leases[lease.fleet] = Row(row.epoch, None)

    def current(self, fleet: str) -> Lease | None:
        with self._lock:
            row = self._leases.get(fleet)
            return None if row is None else row.lease

    def unlock(self, fleet: str, lease_id: str) -> Lease:
        with self._lock:
            self._leases[fleet], taken = judgement.unlocked(self._leases.get(fleet), fleet, lease_id)
            return taken

    def check(self, lease: Lease) -> None:
        with self._lock:
            judgement.ensure(self._leases.get(lease.fleet), lease)

    def put(self, data: bytes) -> str:
        digest = sha256(data)
        with self._lock:
            self._documents[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        with self._lock:
            data = self._documents.get(digest)
        if data is None:
            raise missing(digest)
        return data

    def secrets_key(self) -> bytes | None:
        return self._key

    def initialise(self, key: bytes | None = None) -> None:
        with self._lock:
            if self._key is None:
                self._key = key or fresh_key(self._clock)

    def describe(self) -> str:
        return "memory"

    def close(self) -> None:
        """Nothing to give back."""


def chained(
    fleet: str, head: Head, expected: int, entries: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[bytes, str]], Head]:
    """The rows (bytes, hash) of sealed entries, and the head after them.

    Raises JournalConflict when `head` is not at `expected`; entries that do not follow it are a caller's mistake.
    """
    if head.sequence != expected:
        raise JournalConflict(
            f"the journal of fleet {fleet} is at entry {head.sequence}, not at {expected}: somebody else wrote",
            hint="run the command again",
        )
    rows = []
    sequence, previous, lineage = head.sequence, head.sha256, head.lineage
    for entry in entries:
        sequence += 1
        assert entry["sequence"] == sequence and entry["prev_sha256"] == previous, "not sealed for this place"
        assert lineage in (None, entry["lineage"]), "of another lineage"
        data = encode(entry)
        previous, lineage = sha256_hex(data), entry["lineage"]
        rows.append((data, previous))
    return rows, Head(sequence, previous, lineage)


def epoch_of(last: Sequence[tuple[bytes, str]]) -> int:
    """The epoch of the journal's last entry (bytes, hash); 0 where there is none. Epochs only grow along it."""
    return int(decode(last[0][0], "the journal's last entry")["epoch"]) if last else 0


def fresh_key(clock: Clock) -> bytes:
    """A key for keyed digests: 32 bytes drawn from four fresh ids (488 random bits)."""
    return hashlib.sha256("".join(clock.new_id() for _ in range(4)).encode()).digest()


def missing(digest: str) -> StateError:
    """The error for a document that is not there."""
    return StateError(f"the state has no document {digest}", code="state.missing_document")

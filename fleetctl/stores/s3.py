"""The store for teams: a state in an S3 bucket, or in one of a compatible store.

Whatever two writers could disagree about is decided by the store itself, by writes under a condition:
the journal's slots (`s3_journal`), the lease, the key. A lease is judged by watching it: its token
unchanged for the TTL on this machine's own monotonic clock, counted from after the first answer to before
the last question, so that the time on the way counts for the holder. No two wall clocks are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from executors.clock import Clock, rfc3339
from fleetctl.ledger.entries import verified
from fleetctl.ledger.ports import Head, Holder, JournalConflict, Lease, LeaseLost, StateError
from fleetctl.stores import judgement
from fleetctl.stores import s3_objects as objects
from fleetctl.stores.judgement import Row, Sighting
from fleetctl.stores.memory import START, epoch_of, fresh_key, missing
from fleetctl.stores.processes import Processes
from fleetctl.stores.s3_bucket import Bucket, Place, Stored
from fleetctl.stores.s3_journal import Compacted, S3Journal
from fleetctl.stores.s3_probe import probe
from manifests.digest import sha256

# Each time the lease is lost to another writer, that one got on; this many in a row is no chance any more.
_LEASE_TRIES = 10


class S3Store:
    """All ports of a state, in a bucket. Safe for use by several threads, processes and machines.

    Arguments: `place` names the bucket and the prefix; `read_only` is for commands that only look: they
    write nothing, and a place without a state is an empty one. Methods raise StateError.
    """

    def __init__(self, place: Place, clock: Clock, processes: Processes, *, read_only: bool = False) -> None:
        self._place = place
        self._clock = clock
        self._processes = processes
        self._read_only = read_only
        self._bucket = Bucket(place, clock)
        self._journal = S3Journal(self._bucket, clock)
        self._lock = RLock()
        self._probed = False
        self._held: dict[str, tuple[Row, str]] = {}
        self._sightings: dict[str, Sighting] = {}

    # Journal

    def fleets(self) -> Sequence[str]:
        return [f for f in self._bucket.folders("fleets/") if self._journal.read(f).rows]

    def head(self, fleet: str) -> Head:
        return self._journal.read(fleet).head

    def read(self, fleet: str, after: int = 0) -> Iterable[Mapping[str, Any]]:
        rows = self._journal.read(fleet).rows
        before = START if after == 0 else Head(after, rows[after - 1][1] if after <= len(rows) else "")
        return verified(rows[after:], fleet, before)

    def append(self, fleet: str, expected: int, entries: Sequence[Mapping[str, Any]], epoch: int) -> Head:
        self._writing()
        return self._journal.append(fleet, expected, entries, epoch)

    # Leases

    def acquire(self, fleet: str, holder: Holder, ttl_s: float) -> Lease:
        self._writing()
        with self._lock:
            for _ in range(_LEASE_TRIES):
                lease = self._try_acquire(fleet, holder, ttl_s)
                if lease is not None:
                    return lease
        raise _restless(fleet)

    def renew(self, lease: Lease) -> Lease:
        with self._lock:
            row, token = self._held.get(lease.fleet) or self._read_lease(lease.fleet)
            renewed = judgement.renewed(row, lease, rfc3339(self._clock.now()))
            if not self._write_lease(lease.fleet, renewed, token):
                row, _ = self._read_lease(lease.fleet)
                raise judgement.fenced(lease.fleet, lease.epoch, 0 if row is None else row.epoch)
        assert renewed.lease is not None
        return renewed.lease

    def release(self, lease: Lease) -> None:
        """Gives it back; a store that cannot be reached keeps it, and it is taken when its holder is dead."""
        with self._lock:
            try:
                row, token = self._read_lease(lease.fleet)
                if row is not None and row.lease is not None and row.lease.lease_id == lease.lease_id:
                    self._write_lease(lease.fleet, Row(row.epoch, None), token)
            except StateError:
                return
            finally:
                self._held.pop(lease.fleet, None)

    def unlock(self, fleet: str, lease_id: str) -> Lease:
        self._writing()
        with self._lock:
            for _ in range(_LEASE_TRIES):
                row, token = self._read_lease(fleet)
                free, taken = judgement.unlocked(row, fleet, lease_id)
                if self._write_lease(fleet, free, token):
                    self._journal.fence(fleet, free.epoch)
                    return taken
        raise _restless(fleet)

    def current(self, fleet: str) -> Lease | None:
        row, _ = self._read_lease(fleet)
        return None if row is None else row.lease

    def check(self, lease: Lease) -> None:
        row, _ = self._read_lease(lease.fleet)
        judgement.ensure(row, lease)

    # Documents and key

    def put(self, data: bytes) -> str:
        self._writing()
        digest = sha256(data)
        # Beaten is as good: who came first wrote the same bytes.
        self._bucket.write_if(objects.document_name(digest), data, None)
        return digest

    def get(self, digest: str) -> bytes:
        name = objects.document_name(digest)
        found = self._bucket.get(name)
        if found is None:
            raise missing(digest)
        if sha256(found.data) != digest:
            raise objects.damaged(name, "it has other bytes than its name says")
        return found.data

    def secrets_key(self) -> bytes | None:
        found = self._bucket.get(objects.STATE)
        return None if found is None else objects.decode_state(found.data)

    def initialise(self, key: bytes | None = None) -> None:
        assert not self._read_only, "a reader does not make a state"
        found = self.secrets_key()
        self._writing()
        if found is None:
            data = objects.encode_state(key or fresh_key(self._clock), self._clock.new_id())
            self._bucket.write_if(objects.STATE, data, None)

    def describe(self) -> str:
        return str(self._place)

    def close(self) -> None:
        """Nothing is kept open that matters."""

    # Upkeep

    def compact(self, fleet: str) -> Compacted:
        """Seals the journal into segments. Only for who holds the fleet. Raises JournalConflict, StateError."""
        self._writing()
        # What machines have seen of earlier holders; those that come and go would leave theirs for ever.
        for seen in self._bucket.listing(objects.seen_folder(fleet)):
            self._bucket.delete(seen.name)
        return self._journal.compact(fleet)

    def problems(self, fleet: str) -> list[str]:
        """What is wrong with the objects although every entry can be read."""
        gone = self._journal.missing_slots(fleet)
        if not gone:
            return []
        return [
            f"{objects.slot_name(fleet, gone[0])} and {len(gone) - 1} more were removed: a run that was cut off "
            "could write there unseen"
            if len(gone) > 1
            else f"{objects.slot_name(fleet, gone[0])} was removed: a run that was cut off could write there unseen"
        ]

    def _writing(self) -> None:
        """Before the first write of this process: whether this store can be trusted with one."""
        assert not self._read_only, "a reader does not write"
        if not self._probed:
            probe(self._bucket, self._clock)
            self._probed = True

    def _try_acquire(self, fleet: str, holder: Holder, ttl_s: float) -> Lease | None:
        """None when somebody else wrote the lease meanwhile. Raises LeaseHeld."""
        asked_s = self._clock.monotonic()
        row, token = self._read_lease(fleet)
        sighting = self._sighting(fleet, row)
        if not judgement.may_take(row, sighting, self._processes, asked_s):
            assert row is not None and row.lease is not None
            self._remember(fleet, row, sighting)
            raise judgement.held(row.lease)
        log = self._journal.read(fleet)
        floor = max(log.fence, epoch_of(log.rows[-1:]))
        at = rfc3339(self._clock.now())
        new_id = self._clock.new_id()
        granted = judgement.granted(row, fleet, holder, ttl_s, new_id, at, floor=floor)
        if not self._write_lease(fleet, granted, token):
            return None
        assert granted.lease is not None
        try:
            self._journal.fence(fleet, granted.epoch)
        except LeaseLost:
            self._held.pop(fleet, None)
            return None
        except BaseException:
            self.release(granted.lease)
            raise
        self._forget(fleet)
        return granted.lease

    def _read_lease(self, fleet: str) -> tuple[Row | None, str | None]:
        name = objects.lease_name(fleet)
        found: Stored | None = self._bucket.get(name)
        if found is None:
            return None, None
        return objects.decode_lease(found.data, name), found.token

    def _write_lease(self, fleet: str, row: Row, token: str | None) -> bool:
        data = objects.encode_lease(row, self._clock.new_id())
        written = self._bucket.write_if(objects.lease_name(fleet), data, token)
        if written is None:
            self._held.pop(fleet, None)
            return False
        self._held[fleet] = (row, written)
        return True

    # What this machine has seen of a holder elsewhere; kept in the store, so that the next process goes on.

    def _sighting(self, fleet: str, row: Row | None) -> Sighting | None:
        if row is None or row.lease is None or row.lease.holder.boot_id == self._processes.machine():
            return None
        machine = self._processes.machine()
        known = self._sightings.get(fleet)
        if known is not None and known.machine == machine:
            return known
        name = objects.seen_name(fleet, machine)
        found = self._bucket.get(name)
        if found is None:
            return None
        self._sightings[fleet] = objects.decode_sighting(found.data, name)
        return self._sightings[fleet]

    def _remember(self, fleet: str, row: Row, before: Sighting | None) -> None:
        assert row.lease is not None
        machine = self._processes.machine()
        if row.lease.holder.boot_id == machine:
            return
        seen = judgement.sighted(row, before, machine, self._clock.monotonic())
        self._sightings[fleet] = seen
        if seen is not before:
            self._bucket.put(objects.seen_name(fleet, machine), objects.encode_sighting(seen))

    def _forget(self, fleet: str) -> None:
        if self._sightings.pop(fleet, None) is not None:
            self._bucket.delete(objects.seen_name(fleet, self._processes.machine()))


def _restless(fleet: str) -> JournalConflict:
    return JournalConflict(f"the lease of fleet {fleet} changes hands all the while", hint="try again later")
